//! A decode step must not touch the heap, on any thread.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use minfer_graph::{Fusion, KvFormat, StepInputs, StepRows};
use support::*;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts allocations. This file has one test, so nothing else runs beside it.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn decode_steps_do_not_allocate() {
    let mut executor = executor(1, 2, KvFormat::F16);
    let params = params(1, KvFormat::F16, Fusion::default());
    prepare(&mut executor, &params);
    let mut counts = Vec::new();
    for position in [0, 1, 2, 200, 201, 600, 601, 602] {
        let inputs = StepInputs {
            rows: StepRows {
                tokens: generated(1),
                outputs: generated(1),
            },
            tokens: &[position % 100],
            positions: &[position],
            cells: &[position],
            window: &[0, position + 1],
            output_rows: &[0],
            ..StepInputs::default()
        };
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let outputs = executor.run(&params, &inputs).expect("a step");
        assert_eq!(outputs.values(0).len(), VOCABULARY);
        counts.push(ALLOCATIONS.load(Ordering::Relaxed) - before);
    }
    // Memory grows at the first step and with the splits of a longer window (at 200 and 600).
    assert!(counts[0] > 0, "the counter works");
    assert_eq!(
        [counts[1], counts[2], counts[4], counts[6], counts[7]],
        [0; 5]
    );
}
