// Products of a weight and up to eight rows of activations, with the bits of `matvec` for each row.

#include <metal_stdlib>
#include "arguments.h"
#include "batches.h"

using namespace metal;

/// `y[r, o] = sum of weight[o, i] * x[r, i]`.
template <typename Block, uint Outputs>
kernel void matvec_batch(constant Product& args [[buffer(0)]],
                         device float* y [[buffer(1)]],
                         device const uchar* weight [[buffer(2)]],
                         device const float* x [[buffer(3)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint simdgroup [[simdgroup_index_in_threadgroup]],
                         uint simdgroups [[simdgroups_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const uint first = (group.x * simdgroups + simdgroup) * Outputs;
    // All lanes take part in the sums, whether there are outputs or not.
    const uint outputs = min(Outputs, args.out_width - min(first, args.out_width));
    const uint first_row = group.y * batch;
    // Groups beyond the first may have fewer rows.
    const uint rows = min(batch, args.rows - first_row);
    const PlainRows input{x + ulong(first_row) * args.x_stride, args.x_stride};
    weight += ulong(first) * args.row_bytes;
    y += ulong(first_row) * args.y_stride + first;

    const Sums<Outputs> sums =
        sums_of<Block, Outputs>(input, rows, args.in_width, weight, args.row_bytes, outputs, lane);
#pragma clang loop unroll(full)
    for (uint r = 0; r < max_batch; r++) {
        if (r < rows) {
            put_sums<Outputs>(y + ulong(r) * args.y_stride, sums.of[r], outputs, lane);
        }
    }
}

typedef decltype(matvec_batch<F32, 4>) matvec_batch_kernel;
template [[host_name("matvec_batch_f32")]] kernel matvec_batch_kernel matvec_batch<F32, 4>;
template [[host_name("matvec_batch_f16")]] kernel matvec_batch_kernel matvec_batch<F16, 4>;
template [[host_name("matvec_batch_bf16")]] kernel matvec_batch_kernel matvec_batch<BF16, 4>;
template [[host_name("matvec_batch_q4_0")]] kernel matvec_batch_kernel matvec_batch<Q4_0, 4>;
template [[host_name("matvec_batch_q4_1")]] kernel matvec_batch_kernel matvec_batch<Q4_1, 4>;
template [[host_name("matvec_batch_q5_0")]] kernel matvec_batch_kernel matvec_batch<Q5_0, 4>;
template [[host_name("matvec_batch_q5_1")]] kernel matvec_batch_kernel matvec_batch<Q5_1, 4>;
template [[host_name("matvec_batch_q8_0")]] kernel matvec_batch_kernel matvec_batch<Q8_0, 4>;
template [[host_name("matvec_batch_q4_k")]] kernel matvec_batch_kernel matvec_batch<Q4_K, 2>;
template [[host_name("matvec_batch_q5_k")]] kernel matvec_batch_kernel matvec_batch<Q5_K, 2>;
template [[host_name("matvec_batch_q6_k")]] kernel matvec_batch_kernel matvec_batch<Q6_K, 2>;
