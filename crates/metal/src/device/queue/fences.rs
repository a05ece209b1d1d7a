//! Order between the encoders of a command buffer, for buffers that the device does not track.

/// Fences that encoders update at their end.
pub(in crate::device) struct Fences<F> {
    /// Of the encoders since the last point of order.
    open: Vec<F>,
    /// Of the encoders that those to come must wait for.
    awaited: Vec<F>,
}

impl<F> Default for Fences<F> {
    fn default() -> Self {
        Fences {
            open: Vec::new(),
            awaited: Vec::new(),
        }
    }
}

impl<F> Fences<F> {
    /// Encoders to come wait for those so far. Those before the last point of order were waited for by the ones since;
    /// where there are none since, they still must be.
    pub(in crate::device) fn order(&mut self) {
        if !self.open.is_empty() {
            self.awaited = std::mem::take(&mut self.open);
        }
    }

    /// What a new encoder must wait for.
    pub(in crate::device) fn awaited(&self) -> &[F] {
        &self.awaited
    }

    /// Adds the fence of the encoder that is open. Only one that uses untracked buffers needs one.
    pub(in crate::device) fn add(&mut self, fence: F) {
        self.open.push(fence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Step {
        /// An encoder that uses an untracked buffer.
        Fenced,
        /// One that uses none.
        Other,
        Order,
    }

    /// For each fenced encoder, all that it comes after by waits, and the number of points of order before it.
    fn run(steps: &[Step]) -> Vec<(Vec<usize>, usize)> {
        let mut fences = Fences::default();
        let mut encoders: Vec<(Vec<usize>, usize)> = Vec::new();
        let mut orders = 0;
        for step in steps {
            match step {
                Step::Order => {
                    fences.order();
                    orders += 1;
                }
                Step::Other => {}
                Step::Fenced => {
                    let mut after: Vec<usize> = fences.awaited().to_vec();
                    for &earlier in fences.awaited() {
                        after.extend(&encoders[earlier].0);
                    }
                    fences.add(encoders.len());
                    encoders.push((after, orders));
                }
            }
        }
        encoders
    }

    #[test]
    fn encoders_wait_for_all_before_a_point_of_order_and_for_no_others() {
        const LENGTH: u32 = 8;
        for code in 0..3usize.pow(LENGTH) {
            let step = |at| [Step::Fenced, Step::Other, Step::Order][code / 3usize.pow(at) % 3];
            let steps: Vec<Step> = (0..LENGTH).map(step).collect();
            let encoders = run(&steps);
            for (at, (after, orders)) in encoders.iter().enumerate() {
                for (earlier, (_, before)) in encoders[..at].iter().enumerate() {
                    assert_eq!(after.contains(&earlier), before < orders, "{code}");
                }
            }
        }
    }
}
