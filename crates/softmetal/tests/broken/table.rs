//! The cases.

use crate::case::Case;

const RACE: Case = Case {
    file: "races.metal",
    kernel: "",
    grid: [1, 64],
    floats: [128, 64],
    severity: "error",
    message: "",
};
const MEMORY: Case = Case {
    file: "memory.metal",
    ..RACE
};
const DIVERGENCE: Case = Case {
    file: "divergence.metal",
    ..RACE
};
const POINTERS: Case = Case {
    file: "pointers.metal",
    ..RACE
};
const THREAD: Case = Case {
    file: "thread.metal",
    message: "access out of bounds",
    ..RACE
};

/// Every broken kernel.
pub const CASES: &[Case] = &[
    Case {
        kernel: "missing_barrier",
        message: "race within a threadgroup: threadgroup memory `shared` + 128",
        ..RACE
    },
    Case {
        kernel: "simdgroup_barrier_for_a_threadgroup",
        message: "race within a threadgroup: threadgroup memory `shared` + 128",
        ..RACE
    },
    Case {
        kernel: "barrier_without_flag",
        severity: "warning",
        message: "barrier without the flag of this memory: threadgroup memory `shared` + 252",
        ..RACE
    },
    Case {
        kernel: "flag_of_other_memory",
        severity: "warning",
        message: "barrier without the flag of this memory: device memory `output` (parameter `y`) + 252",
        ..RACE
    },
    Case {
        kernel: "lockstep_only",
        severity: "warning",
        grid: [1, 32],
        message: "accesses that only lockstep orders: threadgroup memory `shared` + 124",
        ..RACE
    },
    Case {
        kernel: "sides_of_a_branch",
        grid: [1, 32],
        message: "race within a threadgroup: threadgroup memory `shared` + 0",
        ..RACE
    },
    Case {
        kernel: "scratch_reused",
        message: "race within a threadgroup: threadgroup memory `scratch` + 124",
        ..RACE
    },
    Case {
        kernel: "partial_sums_unread",
        message: "race within a threadgroup: threadgroup memory `partial` + 0",
        ..RACE
    },
    Case {
        kernel: "threadgroups_write_one_place",
        grid: [2, 64],
        message: "race between threadgroups: device memory `output` (parameter `y`) + 0",
        ..RACE
    },
    Case {
        kernel: "threadgroup_reads_another",
        grid: [2, 64],
        message: "race between threadgroups: device memory `output` (parameter `y`) + 0",
        ..RACE
    },
    Case {
        kernel: "threads_write_one_place",
        message: "race within a threadgroup: device memory `output` (parameter `y`) + 0",
        ..RACE
    },
    Case {
        kernel: "counter_without_atomics",
        message: "race within a threadgroup: threadgroup memory `count` + 0",
        ..RACE
    },
    Case {
        kernel: "same_value",
        severity: "note",
        message: "race within a threadgroup: threadgroup memory `flag` + 0",
        ..RACE
    },
    Case {
        kernel: "tail_off_by_one",
        floats: [33, 33],
        message: "access out of bounds: device memory `output` (parameter `y`) + 132",
        ..MEMORY
    },
    Case {
        kernel: "unguarded_load",
        floats: [33, 33],
        message: "access out of bounds: device memory `input` (parameter `x`) + 132",
        ..MEMORY
    },
    Case {
        kernel: "array_for_fewer_simdgroups",
        message: "access out of bounds: threadgroup memory `partial` + 4",
        ..MEMORY
    },
    Case {
        kernel: "uninitialized",
        message: "read of uninitialized threadgroup memory: threadgroup memory `shared` + 128",
        ..MEMORY
    },
    Case {
        kernel: "kept_from_another_threadgroup",
        grid: [2, 64],
        message: "read of uninitialized threadgroup memory: threadgroup memory `shared` + 0",
        ..MEMORY
    },
    Case {
        kernel: "misaligned_vector",
        floats: [64, 256],
        message: "misaligned access: device memory `input` (parameter `x`) + 12",
        ..MEMORY
    },
    Case {
        kernel: "index_overflow",
        message: "access out of bounds: device memory `output` (parameter `y`) + 6442450944",
        ..MEMORY
    },
    Case {
        kernel: "write_through_const",
        message: "write to memory that may only be read: device memory `input` (parameter `x`) + 0",
        ..MEMORY
    },
    Case {
        kernel: "division_by_zero",
        message: "integer division by zero",
        ..MEMORY
    },
    Case {
        kernel: "shift_by_the_width",
        message: "shift by more bits than there are",
        ..MEMORY
    },
    Case {
        kernel: "wide_vector",
        floats: [512, 64],
        message: "access out of bounds: device memory `output` (parameter `y`) + 2048",
        ..MEMORY
    },
    Case {
        kernel: "too_much_threadgroup_memory",
        message: "limit of the device exceeded",
        ..MEMORY
    },
    Case {
        kernel: "return_before_barrier",
        floats: [64, 33],
        message: "divergent barrier",
        ..DIVERGENCE
    },
    Case {
        kernel: "barrier_in_a_branch",
        message: "divergent barrier",
        ..DIVERGENCE
    },
    Case {
        kernel: "barrier_in_a_loop",
        message: "divergent barrier",
        ..DIVERGENCE
    },
    Case {
        kernel: "sum_in_a_branch",
        message: "divergent simdgroup operation",
        ..DIVERGENCE
    },
    Case {
        kernel: "sum_of_part_of_a_quadgroup",
        message: "divergent simdgroup operation",
        ..DIVERGENCE
    },
    Case {
        kernel: "return_before_shuffle",
        floats: [64, 33],
        message: "divergent simdgroup operation",
        ..DIVERGENCE
    },
    Case {
        kernel: "absent_lane",
        grid: [1, 20],
        message: "shuffle from an absent lane",
        ..DIVERGENCE
    },
    Case {
        kernel: "loop_with_simd_sum",
        message: "divergent simdgroup operation",
        ..DIVERGENCE
    },
    Case {
        kernel: "index_of_a_private_array",
        ..THREAD
    },
    Case {
        kernel: "loop_over_a_private_array",
        ..THREAD
    },
    Case {
        kernel: "pointer_into_a_private_array",
        ..THREAD
    },
    Case {
        kernel: "negative_index",
        ..THREAD
    },
    Case {
        kernel: "index_of_a_constant_table",
        ..THREAD
    },
    Case {
        kernel: "pointer_into_a_constant_table",
        ..THREAD
    },
    Case {
        kernel: "write_to_a_constant",
        message: "write to memory that may only be read",
        ..THREAD
    },
    Case {
        kernel: "quotient_overflow",
        message: "overflow of an integer division",
        ..THREAD
    },
    Case {
        kernel: "remainder_overflow",
        message: "overflow of an integer division",
        ..THREAD
    },
    Case {
        kernel: "deep_recursion",
        message: "limit of the device exceeded",
        ..THREAD
    },
    Case {
        kernel: "pointer_to_another_thread",
        message: "access out of bounds",
        ..POINTERS
    },
    Case {
        kernel: "pointer_to_another_threadgroup",
        grid: [2, 64],
        message: "read of uninitialized threadgroup memory: threadgroup memory `shared` + 0",
        ..POINTERS
    },
    Case {
        kernel: "misaligned_half2",
        message: "misaligned access: device memory `output` (parameter `y`) + 2",
        ..POINTERS
    },
    Case {
        kernel: "component_of_a_misaligned_vector",
        message: "misaligned access: device memory `input` (parameter `x`) + 4",
        ..POINTERS
    },
    Case {
        kernel: "misaligned_vector_in_threadgroup_memory",
        message: "misaligned access: threadgroup memory `shared` + 8",
        ..POINTERS
    },
    Case {
        kernel: "misaligned_atomic",
        message: "misaligned access: device memory `output` (parameter `y`) + 2",
        ..POINTERS
    },
    Case {
        kernel: "plain_read_of_an_atomic",
        message: "race within a threadgroup: threadgroup memory `count` + 0",
        ..POINTERS
    },
    Case {
        kernel: "plain_read_by_the_last_writer",
        message: "race within a threadgroup: threadgroup memory `count` + 0",
        ..POINTERS
    },
    Case {
        kernel: "atomic_without_a_start",
        message: "read of uninitialized threadgroup memory: threadgroup memory `count` + 0",
        ..POINTERS
    },
    Case {
        kernel: "element_before_the_first",
        message: "access out of bounds: device memory `output` (parameter `y`) - 4",
        ..POINTERS
    },
    Case {
        kernel: "product_beyond_64_bits",
        message: "access out of bounds",
        ..POINTERS
    },
    Case {
        kernel: "block_across_the_end",
        message: "access out of bounds: device memory `input` (parameter `x`) + 220",
        ..POINTERS
    },
    Case {
        kernel: "matrix_across_the_end",
        grid: [1, 32],
        message: "access out of bounds: device memory `input` (parameter `x`) + 256",
        ..POINTERS
    },
    Case {
        kernel: "return_in_nested_loops",
        message: "divergent barrier",
        ..DIVERGENCE
    },
    Case {
        kernel: "barriers_of_a_switch",
        message: "divergent barrier",
        ..DIVERGENCE
    },
    Case {
        kernel: "rounds_until_a_break",
        message: "divergent barrier",
        ..DIVERGENCE
    },
    Case {
        kernel: "sum_in_a_conditional",
        message: "divergent simdgroup operation",
        ..DIVERGENCE
    },
    Case {
        kernel: "product_in_a_branch",
        message: "divergent simdgroup operation",
        ..DIVERGENCE
    },
    Case {
        kernel: "tile_stored_by_some",
        message: "divergent simdgroup operation",
        ..DIVERGENCE
    },
];
