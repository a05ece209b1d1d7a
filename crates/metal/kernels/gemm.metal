// Products of a weight and the rows of a prompt.
//
// A threadgroup computes a tile of 64 outputs and 32 rows, 32 elements of the sums a step: weights are decoded once
// for the 32 rows. Tiles are floats: halves would lose activations beyond 65504 and the lower bits of float weights.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
#include "arguments.h"
#include "slices.h"
#include "tiles.h"
#include "vectors.h"

using namespace metal;

constant constexpr uint OUTPUTS = 64, ROWS = 32;

/// Stores `rows` of the rows and `outputs` of the outputs by way of the simdgroup's own threadgroup memory.
inline void store_part(thread const Sums& sums, device float* y, uint stride, uint rows, uint outputs,
                       threadgroup float* memory, uint lane) {
#pragma clang loop unroll(full)
    for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
#pragma clang loop unroll(full)
        for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
            simdgroup_store(sums.at[r][o], memory + 8 * r * STRIDE + 8 * o, STRIDE);
        }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (lane < outputs) {
        for (uint r = 0; r < rows; r++) {
            y[ulong(r) * stride + lane] = memory[r * STRIDE + lane];
        }
    }
}

/// Copies a quarter of a step of a row of activations into a tile; 0 beyond the last row and element.
inline void copy_quarter(threadgroup float* tile, device const float* x, uint in_width, uint at, uint quarter,
                         bool has_row) {
#pragma clang loop unroll(full)
    for (uint v = 0; v < 2; v++) {
        const uint i = 16 * v + 4 * quarter;
        float4 values = 0.0f;
        if (has_row && at + i < in_width) {
            values = vector_at(x + at + i, in_width - at - i);
        }
        *(threadgroup float4*)(tile + i) = values;
    }
}

/// `y[r, o] = sum of weight[o, i] * x[r, i]`.
template <typename Block>
kernel void gemm(constant Product& args [[buffer(0)]],
                 device float* y [[buffer(1)]],
                 device const uchar* weight [[buffer(2)]],
                 device const float* x [[buffer(3)]],
                 uint2 group [[threadgroup_position_in_grid]],
                 uint thread_index [[thread_index_in_threadgroup]],
                 uint simdgroup [[simdgroup_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float4 memory[(OUTPUTS + ROWS) * STRIDE / 4];
    threadgroup float* weights = (threadgroup float*)memory;
    threadgroup float* xs = weights + OUTPUTS * STRIDE;

    // What the thread copies: half a step of an output's weights, a quarter of a step of a row.
    const uint half_step = thread_index % 2, own_output = thread_index / 2;
    const uint quarter = thread_index % 4, own_row = thread_index / 4;
    const uint first_output = group.y * OUTPUTS, first_row = group.x * ROWS;
    const bool has_output = first_output + own_output < args.out_width;
    const bool has_row = first_row + own_row < args.rows;
    weight += ulong(has_output ? first_output + own_output : 0) * args.row_bytes;
    x += ulong(has_row ? first_row + own_row : 0) * args.x_stride;

    // What the simdgroup computes, as far as there is any.
    const uint output = simdgroup % 2 * SIMDGROUP_OUTPUTS, row = simdgroup / 2 * SIMDGROUP_ROWS;
    const uint outputs = min(SIMDGROUP_OUTPUTS, args.out_width - min(first_output + output, args.out_width));
    const uint rows = min(SIMDGROUP_ROWS, args.rows - min(first_row + row, args.rows));
    const bool has_sums = outputs > 0 && rows > 0;
    Sums sums;
    clear(sums);

    for (uint first = 0; first < args.in_width; first += STEP * Slice<Block>::steps) {
        Slice<Block> slice = {};
        if (has_output) {
            slice.read(weight, first, half_step, args.in_width - first);
        }
#pragma clang loop unroll(full)
        for (uint s = 0; s < Slice<Block>::steps; s++) {
#pragma clang loop unroll(full)
            for (uint v = 0; v < 4; v++) {
                const uint at = own_output * STRIDE + Slice<Block>::element(half_step, v);
                *(threadgroup float4*)(weights + at) = slice.vector(s, v);
            }
            copy_quarter(xs + own_row * STRIDE, x, args.in_width, first + s * STEP, quarter, has_row);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (has_sums) {
                add_products(sums, xs + row * STRIDE, weights + output * STRIDE);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }

    y += ulong(first_row + row) * args.y_stride + first_output + output;
    if (outputs == SIMDGROUP_OUTPUTS && rows == SIMDGROUP_ROWS) {
        store_all(sums, y, args.y_stride);
    } else if (has_sums) {
        store_part(sums, y, args.y_stride, rows, outputs, weights + simdgroup * SIMDGROUP_ROWS * STRIDE, lane);
    }
}

typedef decltype(gemm<F32>) gemm_kernel;
template [[host_name("gemm_f32")]] kernel gemm_kernel gemm<F32>;
template [[host_name("gemm_f16")]] kernel gemm_kernel gemm<F16>;
template [[host_name("gemm_bf16")]] kernel gemm_kernel gemm<BF16>;
template [[host_name("gemm_q4_0")]] kernel gemm_kernel gemm<Q4_0>;
template [[host_name("gemm_q4_1")]] kernel gemm_kernel gemm<Q4_1>;
template [[host_name("gemm_q5_0")]] kernel gemm_kernel gemm<Q5_0>;
template [[host_name("gemm_q5_1")]] kernel gemm_kernel gemm<Q5_1>;
template [[host_name("gemm_q8_0")]] kernel gemm_kernel gemm<Q8_0>;
template [[host_name("gemm_q4_k")]] kernel gemm_kernel gemm<Q4_K>;
template [[host_name("gemm_q5_k")]] kernel gemm_kernel gemm<Q5_K>;
template [[host_name("gemm_q6_k")]] kernel gemm_kernel gemm<Q6_K>;
