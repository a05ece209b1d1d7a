//! Wrong tensor entries: dimensions, types, sizes, places, names.

use minfer_gguf::{ErrorKind, TensorType};

use crate::raw::{RawFile, tensor};
use crate::{Case, case};

const F32: u32 = 0;
const Q4_0: u32 = 2;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    dimensions(&mut cases);
    types(&mut cases);
    sizes(&mut cases);
    places(&mut cases);
    names(&mut cases);
    cases
}

/// The valid file with one more tensor, behind the others.
fn with(dimensions: &[u64], ty: u32, offset: u64) -> Vec<u8> {
    let mut file = RawFile::valid().with_tensor(tensor("odd", dimensions, ty, offset));
    file.data_len = 1024;
    file.bytes()
}

fn dimensions(cases: &mut Vec<Case>) {
    for count in [0, 5, 6, 255, u32::MAX] {
        let mut file = RawFile::valid();
        file.tensors[1].dimension_count = Some(count);
        let what = format!("{count} dimensions");
        case!(
            cases,
            what,
            file.bytes(),
            "`matrix`",
            ErrorKind::DimensionCount { .. }
        );
    }
    for rank in 1..=4 {
        for axis in 0..rank {
            let mut shape = vec![32; rank];
            shape[axis] = 0;
            let what = format!("shape {shape:?}");
            let file = with(&shape, Q4_0, 512);
            case!(cases, what, file, "`odd`", ErrorKind::ZeroDimension { .. });
        }
    }
}

fn types(cases: &mut Vec<Case>) {
    // 4, 5 and 31 to 33 were types once and are no longer.
    for code in [4, 5, 31, 32, 33, 1000, 0x0200_0000, u32::MAX] {
        let what = format!("element type {code}");
        let named = format!("`odd` has the unknown element type {code}");
        case!(
            cases,
            what,
            with(&[32], code, 512),
            named,
            ErrorKind::TensorType { .. }
        );
    }
    for ty in (0..64).filter_map(TensorType::from_code) {
        let block_len = ty.block_len() as u64;
        if block_len == 1 {
            continue;
        }
        for len in [1, block_len / 2, block_len - 1, block_len + 1] {
            let what = format!("{ty} with rows of {len}");
            let file = with(&[len, 2], ty.code(), 512);
            case!(cases, what, file, "`odd`", ErrorKind::RowLength { .. });
        }
    }
}

fn sizes(cases: &mut Vec<Case>) {
    let shapes: [&[u64]; 8] = [
        &[1 << 63],
        &[1 << 62],
        &[u64::MAX - 31],
        &[1 << 32, 1 << 32],
        &[1 << 32, 1 << 31],
        &[32, u64::MAX],
        &[1 << 16, 1 << 16, 1 << 16, 1 << 16],
        &[32, 1, 1, u64::MAX],
    ];
    for shape in shapes {
        for ty in [F32, Q4_0] {
            let what = format!("type {ty} with shape {shape:?}");
            // 2^62 elements of Q4_0 are 2^61 bytes: no overflow, but not in the file.
            if ty == Q4_0 && shape == [1 << 62] {
                case!(
                    cases,
                    what,
                    with(shape, ty, 512),
                    "`odd`",
                    ErrorKind::OutsideFile { .. }
                );
            } else {
                case!(
                    cases,
                    what,
                    with(shape, ty, 512),
                    "`odd`",
                    ErrorKind::SizeOverflow { .. }
                );
            }
        }
    }
    for offset in [u64::MAX - 31, u64::MAX - 63] {
        let what = format!("offset {offset}");
        case!(
            cases,
            what,
            with(&[32], F32, offset),
            "`odd`",
            ErrorKind::SizeOverflow { .. }
        );
    }
}

fn places(cases: &mut Vec<Case>) {
    for (i, offset) in [(0, 1), (1, 33), (2, 97), (2, 104), (3, 112), (3, 144)] {
        let mut file = RawFile::valid();
        file.tensors[i].offset = offset;
        let named = String::from_utf8(file.tensors[i].name.clone()).unwrap();
        let what = format!("`{named}` at {offset}");
        case!(
            cases,
            what,
            file.bytes(),
            named,
            ErrorKind::Unaligned { .. }
        );
    }
    // The data has 1024 bytes, the tensor 128.
    for offset in [928, 1024, 1056, 1 << 32, 1 << 62, i64::MAX as u64 - 31] {
        let what = format!("128 bytes at {offset}");
        case!(
            cases,
            what,
            with(&[32], F32, offset),
            "`odd`",
            ErrorKind::OutsideFile { .. }
        );
    }
    for shape in [&[131u64][..], &[8, 17], &[1 << 40], &[2, 2, 2, 17]] {
        let what = format!("shape {shape:?} at 512");
        let file = with(shape, TensorType::F64.code(), 512);
        case!(cases, what, file, "`odd`", ErrorKind::OutsideFile { .. });
    }
    let all_data = RawFile::valid().data_len;
    for missing in [1, 16, 143, all_data] {
        let mut file = RawFile::valid();
        file.data_len -= missing;
        let what = format!("data without the last {missing} bytes");
        case!(
            cases,
            what,
            file.bytes(),
            "tensor `",
            ErrorKind::OutsideFile { .. }
        );
    }
    for (i, offset) in [(0, 32), (1, 0), (1, 64), (2, 0), (2, 128), (3, 96), (3, 0)] {
        let mut file = RawFile::valid();
        file.tensors[i].offset = offset;
        let named = String::from_utf8(file.tensors[i].name.clone()).unwrap();
        let what = format!("`{named}` at {offset}");
        case!(cases, what, file.bytes(), named, ErrorKind::Overlap { .. });
    }
}

fn names(cases: &mut Vec<Case>) {
    for name in ["vector", "matrix", "k-quant"] {
        let mut file = RawFile::valid().with_tensor(tensor(name, &[8], F32, 512));
        file.data_len = 1024;
        let what = format!("a second tensor `{name}`");
        case!(
            cases,
            what,
            file.bytes(),
            name,
            ErrorKind::DuplicateTensor { .. }
        );
    }
}
