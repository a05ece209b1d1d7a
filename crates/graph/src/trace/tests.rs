//! How much is kept at a time.

use minfer_gguf::Tensor;

use super::*;
use crate::backend::{RowCount, Task};
use crate::ir::{DType, Graph, Op, Rows};

/// Copies of one word, which is the number of copies before it.
#[derive(Default)]
struct Counting {
    captured: u32,
    freed: Vec<u32>,
}

impl Backend for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn register_weight(&mut self, _: &Tensor) -> Result<(), BackendError> {
        Ok(())
    }

    fn supports(&self, _: &Graph, _: &Node) -> bool {
        true
    }

    fn alloc(&mut self, _: usize) -> Result<BufferId, BackendError> {
        Ok(BufferId(0))
    }

    fn free(&mut self, buffer: BufferId) {
        self.freed.push(buffer.0);
    }

    fn write(&mut self, _: BufferId, _: usize, _: &[u8]) -> Result<(), BackendError> {
        Ok(())
    }

    fn read(&mut self, buffer: BufferId, _: usize, data: &mut [u8]) -> Result<(), BackendError> {
        data.copy_from_slice(&(buffer.0 as f32).to_le_bytes());
        Ok(())
    }

    fn execute(&mut self, _: Task<'_>) -> Result<(), BackendError> {
        Ok(())
    }

    fn capture(&mut self, _: Operand) -> Result<Option<BufferId>, BackendError> {
        self.captured += 1;
        Ok(Some(BufferId(self.captured - 1)))
    }
}

#[test]
fn a_split_with_more_than_may_be_kept_is_traced_in_parts() {
    let node = Node {
        op: Op::Silu,
        inputs: Vec::new(),
        width: 1,
        rows: Rows::Fixed(1),
        dtype: DType::F32,
        name: "node".to_owned(),
    };
    let value = Operand {
        buffer: BufferId(9),
        offset: 0,
        width: 1,
        stride: 1,
        rows: RowCount {
            prompt: 1,
            generated: 0,
        },
    };
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(Counting::default())];
    let mut captures = Captures {
        limit: 8,
        ..Captures::default()
    };
    let (mut seen, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let mut trace = |value: TracedValue<'_>| seen.push(value.values[0]);
        captures
            .take(&mut trace, &mut backends, 0, &node, value)
            .unwrap();
        kept.push(captures.kept.len());
    }
    assert_eq!((seen, kept), (vec![0.0, 1.0, 2.0], vec![1, 2, 0, 1]));
    captures.release(&mut backends);
    assert!(captures.kept.is_empty());
}
