// What the kernels of generated rows share, so that a row's sums are the same whichever computes it.
//
// Each lane sums `dot_part` over its parts in order, and `simd_sum` is over lanes.
#pragma once

#include "blocks.h"

/// The vectors of a row of `x` at a lane's part of the block at `x`.
template <typename Split>
inline void read_part(device const float* x, uint part, uint left, thread float4* xs) {
#pragma clang loop unroll(full)
    for (uint v = 0; v < Split::vectors; v++) {
        // Only rows of floats end within a vector.
        xs[v] = vector_at(x + Split::element(part, v), Split::elements == 4 ? left : 4);
    }
}

/// Adds up `Outputs` neighbouring outputs of a row over the lanes: lane `first + o` gets output `o`, and other lanes keep
/// what they have. All lanes take part.
template <uint Outputs>
inline float keep_sums(float kept, thread const float* sums, uint first, uint lane) {
#pragma clang loop unroll(full)
    for (uint o = 0; o < Outputs; o++) {
        const float sum = metal::simd_sum(sums[o]);
        kept = lane == first + o ? sum : kept;
    }
    return kept;
}

/// Stores the first `count` of a simdgroup's `Outputs` neighbouring outputs of a row. All lanes take part.
template <uint Outputs>
inline void put_sums(device float* y, thread const float* sums, uint count, uint lane) {
    // A lane per output, so that one store takes all.
    const float sum = keep_sums<Outputs>(0.0f, sums, 0, lane);
    if (lane < count) {
        y[lane] = sum;
    }
}
