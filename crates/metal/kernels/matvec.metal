// Products of a weight and a row of activations.
//
// A simdgroup computes `Rows` outputs, so that it reads its activations once for all of them; what decides how many
// is in `ops/matvec.rs`. Its lanes share blocks as `Split` says and walk along the rows together, `32 / lanes`
// blocks at a time.

#include <metal_stdlib>
#include "arguments.h"
#include "products.h"

using namespace metal;

/// `y[r, o] = sum of weight[o, i] * x[r, i]`.
template <typename Block, uint Rows>
kernel void matvec(constant Product& args [[buffer(0)]],
                   device float* y [[buffer(1)]],
                   device const uchar* weight [[buffer(2)]],
                   device const float* x [[buffer(3)]],
                   uint2 group [[threadgroup_position_in_grid]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]],
                   uint simdgroups [[simdgroups_per_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]]) {
    typedef typename Block::Split Split;
    constexpr uint step = 32 / Split::lanes * Split::elements;
    const uint first = (group.x * simdgroups + simdgroup) * Rows;
    // Beyond the last output there is nothing to read, but all lanes take part in the sums.
    const uint rows = min(Rows, args.out_width - min(first, args.out_width));
    const uint in_width = rows > 0 ? args.in_width : 0;
    const uint part = lane % Split::lanes;
    x += ulong(group.y) * args.x_stride;
    y += ulong(group.y) * args.y_stride;
    weight += ulong(first) * args.row_bytes;

    float sums[Rows] = {};
    for (uint at = lane / Split::lanes * Split::elements; at < in_width; at += step) {
        const uint left = in_width - at;
        float4 xs[Split::vectors];
        read_part<Split>(x + at, part, left, xs);
        device const uchar* block = weight + ulong(at / Split::elements) * Block::bytes;
#pragma clang loop unroll(full)
        for (uint r = 0; r < Rows; r++) {
            if (r < rows) {
                const auto w = Block::read(block + ulong(r) * args.row_bytes, part, left);
                sums[r] += dot_part<Split>(w, xs);
            }
        }
    }

    put_sums<Rows>(y + first, sums, rows, lane);
}

typedef decltype(matvec<F32, 4>) matvec_kernel;
template [[host_name("matvec_f32")]] kernel matvec_kernel matvec<F32, 4>;
template [[host_name("matvec_f16")]] kernel matvec_kernel matvec<F16, 4>;
template [[host_name("matvec_bf16")]] kernel matvec_kernel matvec<BF16, 4>;
template [[host_name("matvec_q4_0")]] kernel matvec_kernel matvec<Q4_0, 4>;
template [[host_name("matvec_q4_1")]] kernel matvec_kernel matvec<Q4_1, 4>;
template [[host_name("matvec_q5_0")]] kernel matvec_kernel matvec<Q5_0, 4>;
template [[host_name("matvec_q5_1")]] kernel matvec_kernel matvec<Q5_1, 4>;
template [[host_name("matvec_q8_0")]] kernel matvec_kernel matvec<Q8_0, 4>;
template [[host_name("matvec_q4_k")]] kernel matvec_kernel matvec<Q4_K, 2>;
template [[host_name("matvec_q5_k")]] kernel matvec_kernel matvec<Q5_K, 2>;
template [[host_name("matvec_q6_k")]] kernel matvec_kernel matvec<Q6_K, 2>;
