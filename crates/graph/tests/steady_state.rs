//! A decode step must not touch the heap.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use minfer_graph::{Arena, CellInputs, Executor, StepInputs, WindowLayout};
use support::*;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
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

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

fn decode(executor: &mut Executor, position: i32) -> usize {
    let step = StepInputs {
        rows: rows(generated(1), generated(1)),
        tokens: &[2],
        positions: &[position],
        cells: &[position],
        output_rows: &[0],
        ..StepInputs::default()
    };
    allocations(|| {
        let outputs = executor.run(&params(1), &step).unwrap();
        assert_eq!(outputs.values(0).len(), VOCABULARY);
    })
}

#[test]
fn decode_steps_do_not_allocate() {
    let backends = vec![Mock::new("a").boxed(), Mock::new("b").boxed()];
    let mut executor = Executor::new(backends, kv_layout());
    executor.set_preference(Some(Box::new(|_, node| minfer_graph::layer_of(&node.name))));
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    let catalog = executor.catalog().clone();
    executor
        .prepare(&params(1), |params| transformer(&catalog, params))
        .unwrap();
    decode(&mut executor, 0);
    let counts: Vec<usize> = (1..8)
        .map(|position| decode(&mut executor, position))
        .collect();
    assert_eq!(counts, [0; 7]);
    executor.set_profiling(true);
    assert!(
        decode(&mut executor, 8) > 0,
        "the counter sees a table being made"
    );
}

#[test]
fn step_inputs_of_several_sequences_do_not_allocate() {
    let mut arena = Arena::new(64).unwrap();
    let ids = [(); 3].map(|()| arena.create());
    for _ in 0..3 {
        for id in ids {
            arena.append(id, 2).unwrap();
        }
    }
    for id in ids {
        arena.reserve(id, 8).unwrap();
    }
    let mut inputs = CellInputs::with_capacity(ids.len());
    for _ in 0..8 {
        let count = allocations(|| {
            let rows = ids.map(|id| (id, arena.append(id, 1).unwrap().start));
            arena.fill_inputs(rows, &mut inputs).unwrap();
            assert_eq!(inputs.layout(), WindowLayout::Map);
        });
        assert_eq!(count, 0);
    }
    let mut small = CellInputs::default();
    let rows = ids.map(|id| (id, 0));
    assert!(allocations(|| arena.fill_inputs(rows, &mut small).unwrap()) > 0);
}
