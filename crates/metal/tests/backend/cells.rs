//! Copies of cells whose rows are no whole words.

use minfer_graph::{Backend, KvFormat, KvRegion, KvShape, RowCopy};

use crate::{assert_no_reports, backend, checked_device};

const CELLS: usize = 9;

/// Keys whose byte `i` is `i`, values whose byte `i` is its complement.
fn region(backend: &mut dyn Backend, shape: KvShape, bytes: usize) -> KvRegion {
    let [keys, values] = contents(bytes).map(|bytes| {
        let buffer = backend.alloc(bytes.len()).unwrap();
        backend.write(buffer, 0, &bytes).unwrap();
        buffer
    });
    KvRegion {
        shape,
        keys,
        values,
    }
}

fn contents(bytes: usize) -> [Vec<u8>; 2] {
    let keys: Vec<_> = (0..bytes).map(|i| i as u8).collect();
    let values = keys.iter().map(|byte| !byte).collect();
    [keys, values]
}

/// Blits take multiples of four bytes. Rows of 6 bytes and of one and three blocks of 34 are not: cells are.
#[test]
fn rows_of_odd_blocks_are_copied_in_whole_words() {
    let Some(device) = checked_device() else {
        return;
    };
    for (format, width, head_dim, cell_bytes) in [
        (KvFormat::F16, 3, 3, 8),
        (KvFormat::Q8_0, 32, 32, 36),
        (KvFormat::Q8_0, 96, 32, 104),
    ] {
        let shape = KvShape {
            cells: CELLS,
            width,
            head_dim,
            format,
        };
        // Apart, and overlapping in both directions.
        for (from, to, len) in [(1, 5, 3), (1, 2, 5), (3, 2, 5)] {
            let mut backend = backend(device.clone());
            let region = region(&mut backend, shape, CELLS * cell_bytes);
            backend
                .copy_rows(&region, RowCopy { from, to, len })
                .unwrap();
            for (buffer, mut expected) in [region.keys, region.values]
                .into_iter()
                .zip(contents(CELLS * cell_bytes))
            {
                let rows = from * cell_bytes..(from + len) * cell_bytes;
                expected.copy_within(rows, to * cell_bytes);
                let mut found = vec![0; expected.len()];
                backend.read(buffer, 0, &mut found).unwrap();
                assert_eq!(found, expected, "{format:?} of {width}: {from} to {to}");
            }
        }
    }
    assert_no_reports(&device);
}

/// The layers of a context that is shifted overlap one after another, in one command buffer.
#[test]
fn overlapping_copies_share_the_memory_in_between() {
    const LAYERS: usize = 8;
    let Some(device) = checked_device() else {
        return;
    };
    let mut backend = backend(device.clone());
    let shape = KvShape {
        cells: CELLS,
        width: 1024,
        head_dim: 64,
        format: KvFormat::F32,
    };
    let regions = [(); LAYERS].map(|()| region(&mut backend, shape, CELLS * 4096));
    let before = backend.available_memory().unwrap();
    for (layer, region) in regions.iter().enumerate() {
        // Not always as many rows, and more later.
        let len = 4 + layer / 4;
        let copy = RowCopy {
            from: 1,
            to: 0,
            len,
        };
        backend.copy_rows(region, copy).unwrap();
    }
    assert_eq!(backend.counts().submits, 0);
    // Keys and values of four rows, then of five.
    let used = before - backend.available_memory().unwrap();
    assert_eq!(used, (4 + 5) * 2 * 4096);
    for (layer, region) in regions.iter().enumerate() {
        let [mut expected, _] = contents(CELLS * 4096);
        expected.copy_within(4096..(5 + layer / 4) * 4096, 0);
        let mut found = vec![0; expected.len()];
        backend.read(region.keys, 0, &mut found).unwrap();
        assert!(found == expected, "layer {layer}");
    }
    // It is free now.
    backend
        .copy_rows(
            &regions[0],
            RowCopy {
                from: 1,
                to: 0,
                len: 5,
            },
        )
        .unwrap();
    assert_eq!(before - backend.available_memory().unwrap(), used);
    assert_no_reports(&device);
}
