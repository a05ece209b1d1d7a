//! Memory of buffers and weights.

use std::sync::Arc;

use memmap2::{Mmap, MmapMut};
use minfer_gguf::{Storage, Tensor, TensorBytes, TensorType};
use minfer_graph::{Backend, DType, Op, WeightId};
use minfer_metal::backend::{MetalBackend, MetalOptions, Sharing, WeightBytes};
use minfer_metal::device::Device;

use crate::nodes::{floats, graph, integers, read, run};
use crate::{assert_no_reports, backend, checked_device, fast_device, options};

/// What is left in a buffer is gone when it is given out again.
#[test]
fn buffers_are_zeroed_whenever_they_are_given_out() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let available = backend.available_memory();
    for bytes in [1, 255, 256, 5000, 70_000] {
        for _ in 0..2 {
            let buffer = backend.alloc(bytes).unwrap();
            let mut found = vec![1; bytes];
            backend.read(buffer, 0, &mut found).unwrap();
            assert!(found.iter().all(|&byte| byte == 0), "{bytes}");
            backend.write(buffer, 0, &vec![7; bytes]).unwrap();
            backend.free(buffer);
        }
    }
    // Each size was allocated once, 1 and 255 as 256, and at most a quarter more than asked for.
    let used = available.unwrap() - backend.available_memory().unwrap();
    assert!((75_256..94_070).contains(&used), "{used}");
    let error = backend.alloc(usize::MAX).unwrap_err().to_string();
    assert!(
        error.starts_with("metal: buffer `pool` of 18446744073709551615 bytes"),
        "{error}"
    );
}

#[test]
fn a_buffer_freed_while_work_uses_it_is_not_given_out_before() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let [x, y] = [1.0, 0.0].map(|value| floats(&mut backend, &[value; 4], 4));
    let silu = graph(Op::Silu, &[(DType::F32, 4)], 4);
    run(&mut backend, &silu, &[x], y, None).unwrap();
    backend.free(x.buffer);
    let other = floats(&mut backend, &[50.0; 4], 4);
    assert_eq!(backend.counts().submits, 0);
    let value = read(&mut backend, y)[0];
    assert!(
        (value - 1.0 / (1.0 + (-1.0f32).exp())).abs() < 1e-6,
        "{value}"
    );
    assert_eq!(read(&mut backend, other), [50.0; 4]);
}

/// Memory that starts `before` bytes behind the start of a device page.
struct Memory {
    block: Mmap,
    start: usize,
    bytes: usize,
    pages: usize,
}

// SAFETY: the mapping is private, and never changed or moved.
unsafe impl Storage for Memory {
    fn bytes(&self) -> &[u8] {
        &self.block[self.start..][..self.bytes]
    }

    fn pages(&self) -> &[u8] {
        &self.block[self.start..][..self.pages]
    }
}

const PAGE: usize = 16 * 1024;

/// Four pages less 100 bytes, whose f32 number `i` is `i`; the last page can be read to its end if `whole`.
fn memory(before: usize, whole: bool) -> Arc<Memory> {
    let mut block = MmapMut::map_anon(6 * PAGE).unwrap();
    let start = block.as_ptr().align_offset(PAGE) + before;
    let bytes = 4 * PAGE - 100 - before;
    for (i, word) in block[start..].as_chunks_mut().0.iter_mut().enumerate() {
        *word = (i as f32).to_le_bytes();
    }
    Arc::new(Memory {
        block: block.make_read_only().unwrap(),
        start,
        bytes,
        pages: if whole { 4 * PAGE - before } else { bytes },
    })
}

/// Two rows of four features from a byte on.
fn table(memory: &Arc<Memory>, name: &str, offset: usize) -> Tensor {
    let storage = Arc::clone(memory) as Arc<dyn Storage>;
    Tensor {
        name: name.to_owned(),
        ty: TensorType::F32,
        shape: vec![4, 2],
        bytes: TensorBytes::new(storage, offset..offset + 32).unwrap(),
    }
}

/// Row 1 of the table, as the device sees it.
fn second_row(backend: &mut dyn Backend, table: &Tensor) -> Vec<f32> {
    let table = Tensor {
        name: "w".to_owned(),
        ..table.clone()
    };
    backend.register_weight(&table).unwrap();
    let embed = Op::Embed {
        weight: WeightId(0),
    };
    let y = floats(backend, &[0.0; 4], 4);
    let ids = integers(backend, &[1]);
    run(
        backend,
        &graph(embed, &[(DType::I32, 1)], 4),
        &[ids],
        y,
        None,
    )
    .unwrap();
    read(backend, y)
}

#[test]
fn weights_are_shared_where_whole_pages_hold_them() {
    let Some(device) = checked_device() else {
        return;
    };
    assert_eq!(device.info().page_bytes, PAGE);
    let last = 4 * PAGE - 160;
    for (before, whole, offset, is_shared) in [
        (0, false, 0, true),
        (0, false, 3 * PAGE - 32, true),
        // Part of it lies in the page that ends early.
        (0, false, 3 * PAGE - 16, false),
        (0, false, last, false),
        (0, true, last, true),
        // The first whole page starts later.
        (4096, false, 0, false),
        (4096, false, PAGE - 4096, true),
        // Kernels load 16 bytes at a time.
        (0, false, 40, false),
    ] {
        let mut backend = backend(device.clone());
        let table = table(&memory(before, whole), "w", offset);
        let row = second_row(&mut backend, &table);
        let first = offset as f32 / 4.0 + 4.0;
        assert_eq!(row, [first, first + 1.0, first + 2.0, first + 3.0]);
        let expected = match is_shared {
            true => WeightBytes {
                shared: 32,
                copied: 0,
            },
            false => WeightBytes {
                shared: 0,
                copied: 32,
            },
        };
        assert_eq!(backend.weight_bytes(), expected, "{offset} after {before}");
    }
    assert_no_reports(&device);
}

/// Metal's buffers without a copy are for mapped memory only.
#[test]
fn weights_in_memory_of_the_allocator_are_copied() {
    let words = (0..2 * PAGE / 4).flat_map(|word| (word as f32).to_le_bytes());
    let storage: Arc<dyn Storage> = Arc::new(words.collect::<Vec<u8>>());
    // As if it were shared: the first whole page.
    let offset = storage.bytes().as_ptr().align_offset(PAGE);
    let table = Tensor {
        name: "w".to_owned(),
        ty: TensorType::F32,
        shape: vec![4, 2],
        bytes: TensorBytes::new(storage, offset..offset + 32).unwrap(),
    };
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let first = (offset / 4 + 4) as f32;
    let row = [first, first + 1.0, first + 2.0, first + 3.0];
    assert_eq!(second_row(&mut backend, &table), row);
    assert_eq!(
        backend.weight_bytes(),
        WeightBytes {
            shared: 0,
            copied: 32
        }
    );
}

#[test]
fn a_weight_can_be_copied_on_demand() {
    let options = MetalOptions {
        sharing: Sharing::Nothing,
        ..options()
    };
    let Some(device) = fast_device() else { return };
    let mut backend = MetalBackend::new(device, options);
    let table = table(&memory(0, false), "w", 64);
    assert_eq!(second_row(&mut backend, &table), [20.0, 21.0, 22.0, 23.0]);
    assert_eq!(
        backend.weight_bytes(),
        WeightBytes {
            shared: 0,
            copied: 32
        }
    );
}

/// A backend of weights in three whole pages after its warm-up.
pub fn warmed<D: Device>(device: D, touch_weights: bool) -> MetalBackend<D> {
    let options = MetalOptions {
        touch_weights,
        ..options()
    };
    let mut backend = MetalBackend::new(device, options);
    let memory = memory(0, false);
    // The second is in the part of the first.
    for (name, offset) in [("w", 0), ("v", PAGE)] {
        let table = table(&memory, name, offset);
        backend.register_weight(&table).unwrap();
    }
    backend.warm_up().unwrap();
    backend
}

#[test]
fn shared_weights_are_touched_on_demand() {
    for (touch_weights, dispatches) in [(false, 0), (true, 1)] {
        let Some(device) = checked_device() else {
            return;
        };
        let mut backend = warmed(device.clone(), touch_weights);
        let counts = backend.counts();
        assert_eq!(
            (counts.dispatches, counts.submits),
            (dispatches, dispatches)
        );
        assert_no_reports(&device);
        // Nothing left to wait for.
        backend.synchronize().unwrap();
        assert_eq!(backend.counts().submits, dispatches);
    }
}

/// Bytes of the device's memory that a table, the second in `memory`, takes with and after another.
fn held<D: Device>(device: D, sharing: Sharing) -> u64 {
    let options = MetalOptions {
        sharing,
        ..options()
    };
    let mut backend = MetalBackend::new(device, options);
    let before = backend.available_memory().unwrap();
    let memory = memory(0, false);
    for (name, offset) in [("w", 64), ("v", 128)] {
        backend
            .register_weight(&table(&memory, name, offset))
            .unwrap();
    }
    before - backend.available_memory().unwrap()
}

#[test]
fn weights_take_memory_of_the_device() {
    let Some(device) = fast_device() else { return };
    let held = |sharing| held(device.clone(), sharing);
    assert_eq!(held(Sharing::Nothing), 32 + 32);
    // Three whole pages of the file, or the one that holds both weights.
    assert_eq!(held(Sharing::Files), 3 * PAGE as u64);
    assert_eq!(held(Sharing::Weights), PAGE as u64);
}
