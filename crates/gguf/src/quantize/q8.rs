//! Q8_0: 32 signed bytes with one scale.
//!
//! ```text
//! Q8_0: f16 d, i8 quants[32]     value = d * q
//! ```

use super::BLOCK;
use super::scale::{extreme, f16_at, inverse, put_f16};

pub(super) fn decode_q8_0(block: &[u8; 34], out: &mut [f32; BLOCK]) {
    let d = f16_at(block, 0);
    for (&byte, out) in block[2..].iter().zip(out) {
        *out = f32::from(byte as i8) * d;
    }
}

pub(super) fn encode_q8_0(values: &[f32; BLOCK], block: &mut [u8; 34]) {
    let d = extreme(values).abs() / 127.0;
    let id = inverse(d);
    put_f16(block, 0, d);
    for (byte, &v) in block[2..].iter_mut().zip(values) {
        *byte = (v * id).round() as i8 as u8;
    }
}
