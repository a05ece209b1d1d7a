//! Memory that the system maps when it is first read.

use super::{Encode, Kernel, OpError, copied, number};
use crate::arguments::TouchPages;
use crate::device::{Access, Argument, Buffer, BufferRange, Device};
use crate::kernels::TOUCH;

const NAME: &str = "touch_pages";
/// Bytes of a word.
const WORD: usize = 4;

/// Bytes that [`touch_pages`] needs for the words it reads.
pub fn words<B: Buffer>(memory: &B, page_bytes: usize) -> usize {
    WORD * memory.bytes().div_ceil(page_bytes.max(1))
}

/// Reads the first word of every page of `memory` into `y`, which has room for [`words`].
pub fn touch_pages<D: Device>(
    encode: &mut Encode<'_, D>,
    y: BufferRange<'_, D::Buffer>,
    memory: &D::Buffer,
) -> Result<(), OpError> {
    let page_bytes = encode.device.info().page_bytes;
    let pages = memory.bytes().div_ceil(page_bytes.max(1));
    if page_bytes == 0 || !page_bytes.is_multiple_of(WORD) {
        let expected = "a multiple of 4 bytes";
        return Err(OpError::value(NAME, "a page", page_bytes, expected));
    }
    if y.bytes != WORD * pages {
        let what = "the memory for words";
        return Err(OpError::value(NAME, what, y.bytes, WORD * pages));
    }
    let arguments = TouchPages {
        pages: number(NAME, "pages", pages)?,
        page_words: number(NAME, "words of a page", page_bytes / WORD)?,
    };
    let kernel = Kernel {
        file: TOUCH,
        name: NAME,
        constants: &[],
    };
    encode.threads(
        kernel,
        [pages, 1, 1],
        &[
            copied(&arguments),
            Argument::Buffer {
                index: 1,
                range: y,
                access: Access::Write,
            },
            Argument::Buffer {
                index: 2,
                range: BufferRange::whole(memory),
                access: Access::Read,
            },
        ],
    )
}
