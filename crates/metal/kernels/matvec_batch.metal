// Products of a weight and up to eight rows of activations, with the bits of `matvec` for each row.
//
// A simdgroup reads and decodes its parts of the weight once, and keeps them in registers for all rows: rows need
// no more than a sum per output each. Lanes share blocks and sum as in `matvec.metal`.

#include <metal_stdlib>
#include "arguments.h"
#include "products.h"

using namespace metal;

/// The most rows that a threadgroup takes.
static constant constexpr uint max_batch = 8;
/// Rows that a threadgroup takes, from 1 to `max_batch`: a pipeline has the registers of its own count.
constant uint batch [[function_constant(1)]];

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
    typedef typename Block::Split Split;
    constexpr uint step = 32 / Split::lanes * Split::elements;
    const uint first = (group.x * simdgroups + simdgroup) * Outputs;
    // Beyond the last output there is nothing to read, but all lanes take part in the sums.
    const uint outputs = min(Outputs, args.out_width - min(first, args.out_width));
    const uint in_width = outputs > 0 ? args.in_width : 0;
    const uint part = lane % Split::lanes;
    const uint first_row = group.y * batch;
    // Groups beyond the first may have fewer rows.
    const uint rows = min(batch, args.rows - first_row);
    x += ulong(first_row) * args.x_stride;
    y += ulong(first_row) * args.y_stride + first;
    weight += ulong(first) * args.row_bytes;

    float sums[max_batch][Outputs] = {};
    for (uint at = lane / Split::lanes * Split::elements; at < in_width; at += step) {
        const uint left = in_width - at;
        device const uchar* block = weight + ulong(at / Split::elements) * Block::bytes;
        typename Split::Part parts[Outputs];
#pragma clang loop unroll(full)
        for (uint o = 0; o < Outputs; o++) {
            if (o < outputs) {
                parts[o] = Block::read(block + ulong(o) * args.row_bytes, part, left);
            }
        }
#pragma clang loop unroll(full)
        for (uint r = 0; r < max_batch; r++) {
            if (r < rows) {
                float4 xs[Split::vectors];
                read_part<Split>(x + ulong(r) * args.x_stride + at, part, left, xs);
#pragma clang loop unroll(full)
                for (uint o = 0; o < Outputs; o++) {
                    if (o < outputs) {
                        sums[r][o] += dot_part<Split>(parts[o], xs);
                    }
                }
            }
        }
    }

#pragma clang loop unroll(full)
    for (uint r = 0; r < max_batch; r++) {
        if (r < rows) {
            put_sums<Outputs>(y + ulong(r) * args.y_stride, sums[r], outputs, lane);
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
