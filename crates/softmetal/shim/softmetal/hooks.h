// The interface between a compiled kernel and the runtime: calls out, and tables read in.
//
// The Rust side declares the same types in `module/abi.rs`.
#pragma once

namespace softmetal {

// `convergent` and `nomerge` keep the optimizer from duplicating a call, from moving it into or out of
// a branch, and from making one of two: the runtime knows a point of the kernel by its return address.
#define SOFTMETAL_CONVERGENT __attribute__((convergent, nomerge))

/// What an exchange is for: it is counted so. Lanes that meet bring nothing: without checks they need not wait.
enum exchange_kind : uint { simd_operation, matrix_operation, quad_operation, meeting };

extern "C" {

/// Blocks until the simdgroup (`scope` 0) or threadgroup (1) has arrived. `flags` as in `mem_flags`.
SOFTMETAL_CONVERGENT void softmetal_barrier(uint scope, uint flags);

/// What the lanes of a simdgroup brought to an exchange, valid until the calling lane's next one.
struct softmetal_exchange {
    uint active;         ///< Bit per lane that takes part.
    uint lane;           ///< The calling lane.
    ulong values[32][2]; ///< Their values.
    ulong result[2];     ///< What the first of them computed for all, if `has_result`.
    uint has_result;
    float products[8][8]; ///< Of the matrices that all of them hold, if `has_result`.
};
/// Another address space, which means nothing to the processor, hides the runtime's memory from the
/// instrumentation.
typedef __attribute__((address_space(1))) softmetal_exchange* softmetal_exchange_pointer;
SOFTMETAL_CONVERGENT softmetal_exchange_pointer softmetal_simd(const void* value, uint size,
                                                               uint kind);

/// Fills `products` from a `matrix_pair` of each lane.
void softmetal_multiply(softmetal_exchange_pointer all);

/// A lane asks for the value of one that takes no part in the exchange.
SOFTMETAL_CONVERGENT void softmetal_absent_lane(uint lane);

/// An atomic access follows: 0 a load, 1 a store, 2 both.
void softmetal_atomic(const volatile void* at, uint size, uint operation);

/// Memory of the variable that `key` identifies; the same for every thread of a threadgroup.
void* softmetal_threadgroup_variable(const void* key, ulong size, uint align, const char* name);

} // extern "C"

/// What a lane holds of two 8x8 matrices: two neighbours of one row, where Apple GPUs have them.
struct matrix_pair {
    float a[2], b[2];
};
constexpr uint row_of(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
constexpr uint column_of(uint lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }

} // namespace softmetal
