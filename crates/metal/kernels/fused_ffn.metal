// The gated half of a feed-forward network of generated rows: normalization, both products, and the activation. The bits
// are those of one kernel after the other.

#include <metal_stdlib>
#include "activations.h"
#include "arguments.h"
#include "fused.h"

using namespace metal;

constant uint gate_type [[function_constant(5)]];
constant uint up_type [[function_constant(6)]];

/// `y[r] = silu(gate n) * (up n)`, with `n` the row of `x`, normalized or not. A simdgroup computes the gates of its outputs,
/// then what they let through: one register per row is kept of the former.
kernel void fused_ffn(constant FusedFfn& args [[buffer(0)]],
                      device float* y [[buffer(1)]],
                      device const uchar* gate [[buffer(2)]],
                      device const uchar* up [[buffer(3)]],
                      device const float* x [[buffer(4)]],
                      device const float* gain [[buffer(5), function_constant(normalized)]],
                      uint2 group [[threadgroup_position_in_grid]],
                      uint simdgroup [[simdgroup_index_in_threadgroup]],
                      uint simdgroups [[simdgroups_per_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float squares[max_batch * norm_parts];
    FusedProducts products;
    products.rows = rows_of(x, args.x_stride, args.in_width, group.y, args.rows);
    if (normalized) {
        normalize(products.rows, gain, args.eps, squares, lane, simdgroup, simdgroups);
    }
    products.out_width = args.out_width;
    products.first = (group.x * simdgroups + simdgroup) * span;
    products.lane = lane;

    products.weight = gate;
    products.row_bytes = args.gate_row_bytes;
    run_with(gate_type, products);
    float gates[max_batch];
#pragma clang loop unroll(full)
    for (uint r = 0; r < max_batch; r++) {
        if (r < products.rows.count) {
            gates[r] = products.output[r];
        }
    }
    products.weight = up;
    products.row_bytes = args.up_row_bytes;
    run_with(up_type, products);

    y += products.first + lane;
#pragma clang loop unroll(full)
    for (uint r = 0; r < max_batch; r++) {
        if (r < products.rows.count && products.has_output()) {
            y[ulong(products.rows.first + r) * args.y_stride] = swiglu(gates[r], products.output[r]);
        }
    }
}
