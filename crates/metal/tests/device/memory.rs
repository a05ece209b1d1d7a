//! Buffers.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use memmap2::{Mmap, MmapMut};
use minfer_metal::device::{Buffer, Device, StableBytes};

use crate::{LONG, dispatch, floats, on_every_device, pipeline, read, to_from};

on_every_device!(
    buffers_start_zeroed_and_keep_what_is_written,
    memory_is_shared_without_a_copy_and_released_after_its_last_use,
    memory_that_is_not_whole_pages_is_not_shared,
);

fn buffers_start_zeroed_and_keep_what_is_written<D: Device>(device: &D) {
    let buffer = device.buffer(100, "b").unwrap();
    let mut bytes = [1; 100];
    buffer.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 100]);
    buffer.write(97, &[1, 2, 3]).unwrap();
    let mut end = [0; 4];
    buffer.read(96, &mut end).unwrap();
    assert_eq!(end, [0, 1, 2, 3]);
    let error = buffer.write(98, &[1, 2, 3]).unwrap_err().to_string();
    assert_eq!(
        error,
        "buffer `b` of 100 bytes has no range of 3 bytes at 98"
    );
    let most = device.info().max_buffer_bytes;
    for bytes in [0, most + 1] {
        let error = device.buffer(bytes, "b").err().unwrap().to_string();
        let expected = format!("buffer `b` of {bytes} bytes: a buffer has 1 to {most} bytes");
        assert_eq!(error, expected);
    }
}

/// Part of a mapping.
struct Pages {
    map: Mmap,
    start: usize,
    bytes: usize,
}

// SAFETY: the mapping is private, and never changed or moved.
unsafe impl StableBytes for Pages {
    fn bytes(&self) -> &[u8] {
        &self.map[self.start..][..self.bytes]
    }
}

/// Two pages of numbers from 0 on, `beyond` bytes after a multiple of `page`.
fn pages(page: usize, beyond: usize) -> Arc<Pages> {
    let mut map = MmapMut::map_anon(4 * page).unwrap();
    let start = map.as_ptr().align_offset(page) + beyond;
    let bytes = 2 * page;
    let (elements, _) = map[start..][..bytes].as_chunks_mut::<4>();
    for (i, element) in elements.iter_mut().enumerate() {
        *element = (i as f32).to_le_bytes();
    }
    let map = map.make_read_only().unwrap();
    Arc::new(Pages { map, start, bytes })
}

fn is_released(memory: &Weak<Pages>) -> bool {
    let start = Instant::now();
    while memory.strong_count() > 0 && start.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(1));
    }
    memory.strong_count() == 0
}

fn memory_is_shared_without_a_copy_and_released_after_its_last_use<D: Device>(device: &D) {
    let memory = pages(device.info().page_bytes, 0);
    let address = memory.bytes().as_ptr().addr();
    let watched = Arc::downgrade(&memory);
    let shared = device.wrap(memory, "part").unwrap();
    let y = floats(device, "y", &[0.0; 3]);
    let twice = pipeline(device, "twice", &[]).unwrap();
    let work = to_from(&y, &shared);
    device.run(&dispatch(&twice, &work, 3), LONG).unwrap();
    assert_eq!(read(&y), [0.0, 2.0, 4.0]);
    let held = watched.upgrade().unwrap();
    assert_eq!(held.bytes().as_ptr().addr(), address);
    drop(held);
    assert_eq!(watched.strong_count(), 1);
    let read_only = "buffer `part` wraps memory that may only be read";
    assert_eq!(shared.write(0, &[1]).unwrap_err().to_string(), read_only);
    let written = to_from(&shared, &y);
    let error = device.run(&dispatch(&twice, &written, 3), LONG);
    assert_eq!(
        error.unwrap_err().to_string(),
        format!("`test`: kernel `twice`: {read_only}")
    );
    drop(shared);
    assert!(is_released(&watched));
}

fn memory_that_is_not_whole_pages_is_not_shared<D: Device>(device: &D) {
    let page = device.info().page_bytes;
    let memory = pages(page, 4);
    let address = memory.bytes().as_ptr().addr();
    let error = device.wrap(memory, "part").err().unwrap().to_string();
    let expected = format!(
        "buffer `part`: address {address:#x} and length {} must be multiples of {page} bytes",
        2 * page
    );
    assert_eq!(error, expected);
}
