// A product of a weight and generated rows, with what stands before and after it in a layer: normalization of the rows,
// bias, and sum with the residual. The bits are those of one kernel after the other.

#include <metal_stdlib>
#include "arguments.h"
#include "fused.h"

using namespace metal;

constant uint type [[function_constant(5)]];
constant bool biased [[function_constant(6)]];
constant bool has_residual [[function_constant(7)]];

/// `y[r] = weight normalized(x[i]) + bias + residual[i]`, with `i = indices[r]` or `i = r`; each part may be absent. `y`
/// may be the residual where nothing is picked.
kernel void fused_matmul(constant FusedMatMul& args [[buffer(0)]],
                         device float* y [[buffer(1)]],
                         device const uchar* weight [[buffer(2)]],
                         device const float* x [[buffer(3)]],
                         device const float* gain [[buffer(4), function_constant(normalized)]],
                         device const float* bias [[buffer(5), function_constant(biased)]],
                         device const float* residual [[buffer(6), function_constant(has_residual)]],
                         device const int* indices [[buffer(7), function_constant(gathered)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint simdgroup [[simdgroup_index_in_threadgroup]],
                         uint simdgroups [[simdgroups_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float squares[max_batch * norm_parts];
    FusedRows rows = rows_of(x, args.x_stride, args.in_width, group.y, args.rows);
    if (gathered) {
        rows.indices = indices;
    }
    if (normalized) {
        normalize(rows, gain, args.eps, squares, lane, simdgroup, simdgroups);
    }

    FusedProducts products;
    products.rows = rows;
    products.weight = weight;
    products.row_bytes = args.row_bytes;
    products.out_width = args.out_width;
    products.first = (group.x * simdgroups + simdgroup) * span;
    products.lane = lane;
    run_with(type, products);

    const uint output = products.first + lane;
#pragma clang loop unroll(full)
    for (uint r = 0; r < max_batch; r++) {
        if (r < rows.count && products.has_output()) {
            float value = products.output[r];
            if (biased) {
                value += bias[output];
            }
            if (has_residual) {
                value += residual[rows.number(r) * args.residual_stride + output];
            }
            y[ulong(rows.first + r) * args.y_stride + output] = value;
        }
    }
}
