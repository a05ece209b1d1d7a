// What the fused kernels of generated rows share: rows that are normalized while they are read, and their products with
// weights of any type.
//
// Every threadgroup computes the factors of its rows anew: rows are short and in the cache, and a dispatch of its own
// would cost more. A normalized row is nowhere in memory.
#pragma once

#include "batches.h"
#include "block_types.h"
#include "norms.h"

/// Whether rows are normalized.
constant bool normalized [[function_constant(2)]];
/// Outputs of a simdgroup, a multiple of what it computes at once.
constant uint span [[function_constant(3)]];
/// Whether rows are picked by index.
constant bool gathered [[function_constant(4)]];

/// Rows of a threadgroup.
struct FusedRows {
    device const float* x;
    device const float* gain;
    device const int* indices;
    uint stride;
    uint width;
    uint first;
    /// Rows that there are: groups beyond the first may have fewer than `batch`.
    uint count;
    float factor[max_batch];

    /// Where row `r` is.
    ulong number(uint r) const { return gathered ? ulong(indices[first + r]) : first + r; }

    device const float* row(uint r) const { return x + number(r) * stride; }

    template <typename Split>
    void read(uint r, uint at, uint part, uint left, thread float4* xs) const {
        read_part<Split>(row(r) + at, part, left, xs);
        if (normalized) {
            float4 gains[Split::vectors];
            read_part<Split>(gain + at, part, left, gains);
#pragma clang loop unroll(full)
            for (uint v = 0; v < Split::vectors; v++) {
                xs[v] = normalized_by(factor[r], xs[v], gains[v]);
            }
        }
    }
};

/// Rows that are neither normalized nor picked so far.
inline FusedRows rows_of(device const float* x, uint stride, uint width, uint group, uint rows) {
    FusedRows of;
    of.x = x;
    of.stride = stride;
    of.width = width;
    of.first = group * batch;
    of.count = metal::min(batch, rows - of.first);
    return of;
}

/// Computes the factors; `squares` has `norm_parts` floats for each row. All threads take part.
inline void normalize(thread FusedRows& rows, device const float* gain, float eps,
                      threadgroup float* squares, uint lane, uint simdgroup, uint simdgroups) {
    rows.gain = gain;
    for (uint task = simdgroup; task < rows.count * norm_parts; task += simdgroups) {
        device const float* row = rows.row(task / norm_parts);
        const float sum = squares_of(row, rows.width, task % norm_parts, lane);
        if (lane == 0) {
            squares[task] = sum;
        }
    }
    threadgroup_barrier(metal::mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
    for (uint r = 0; r < max_batch; r++) {
        if (r < rows.count) {
            rows.factor[r] = norm_factor(squares + r * norm_parts, rows.width, eps, lane);
        }
    }
}

/// The outputs of a simdgroup.
struct FusedProducts {
    FusedRows rows;
    device const uchar* weight;
    uint row_bytes;
    /// Rows of the weight.
    uint out_width;
    /// First output of the simdgroup.
    uint first;
    uint lane;
    /// Output `first + lane` of each row, of the lanes that have one.
    float output[max_batch];

    template <typename Block, uint Outputs>
    void run() {
#pragma clang loop unroll(full)
        for (uint o = 0; o < span; o += Outputs) {
            const uint at = first + o;
            // All lanes take part in the sums, whether there are outputs or not.
            const uint outputs = metal::min(Outputs, out_width - metal::min(at, out_width));
            const Sums<Outputs> sums =
                sums_of<Block, Outputs>(rows, rows.count, rows.width, weight + ulong(at) * row_bytes,
                                        row_bytes, outputs, lane);
#pragma clang loop unroll(full)
            for (uint r = 0; r < max_batch; r++) {
                if (r < rows.count) {
                    output[r] = keep_sums<Outputs>(o > 0 ? output[r] : 0.0f, sums.of[r], o, lane);
                }
            }
        }
    }

    /// Whether the lane has an output.
    bool has_output() const { return lane < span && first + lane < out_width; }
};
