//! The kernel that reads a word of every page.

use minfer_metal::arguments::{KernelArguments, TouchPages};
use minfer_metal::device::{Grid, Size};
use minfer_metal::kernels::TOUCH;

use crate::launch::{Launch, Operand};

/// Words of a page.
const PAGE: usize = 64;

fn launch(pages: usize, threads: u32) -> Launch {
    let words: Vec<_> = (0..pages * PAGE).map(|word| 7 * word as i32 - 3).collect();
    let args = TouchPages {
        pages: pages as u32,
        page_words: PAGE as u32,
    };
    Launch {
        file: TOUCH,
        kernel: "touch_pages".to_owned(),
        constants: vec![],
        arguments: args.as_bytes().to_vec(),
        operands: vec![Operand::output(pages, 1), Operand::integers(&words)],
        bindings: vec![0, 1],
        grid: Grid::Threads(Size::linear(threads)),
        threadgroup: [32, 1, 1],
    }
}

/// A launch of every kernel.
pub fn launches() -> Vec<Launch> {
    vec![launch(3, 32)]
}

#[test]
fn the_first_word_of_every_page_is_read() {
    for (pages, threads) in [(1, 1), (5, 32), (33, 33), (40, 64)] {
        let expected: Vec<_> = (0..pages)
            .map(|page| (7 * (page * PAGE) as i32 - 3).cast_unsigned())
            .collect();
        assert_eq!(launch(pages, threads).run(), expected);
    }
}
