//! Who may touch a buffer while command buffers run.

use crate::device::Access;

/// Command buffers that use a buffer and have not completed.
#[derive(Debug, Default)]
pub(in crate::device) struct Uses {
    reading: usize,
    writing: usize,
}

impl Uses {
    /// Whether an access would race with them: one of the two writes.
    pub(in crate::device) fn conflict(&self, access: Access) -> bool {
        self.writing > 0 || (access == Access::Write && self.reading > 0)
    }

    /// A command buffer starts.
    pub(in crate::device) fn begin(&mut self, access: Access) {
        *self.of(access) += 1;
    }

    /// One that started has completed.
    pub(in crate::device) fn end(&mut self, access: Access) {
        *self.of(access) -= 1;
    }

    fn of(&mut self, access: Access) -> &mut usize {
        match access {
            Access::Read => &mut self.reading,
            Access::Write => &mut self.writing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let mut uses = Uses::default();
        assert!(!uses.conflict(Access::Write));
        uses.begin(Access::Read);
        uses.begin(Access::Read);
        assert!(!uses.conflict(Access::Read));
        uses.end(Access::Read);
        assert!(uses.conflict(Access::Write));
        uses.end(Access::Read);
        uses.begin(Access::Write);
        assert!(uses.conflict(Access::Read) && uses.conflict(Access::Write));
        uses.end(Access::Write);
        assert!(!uses.conflict(Access::Read) && !uses.conflict(Access::Write));
    }
}
