// Rows by index, of an activation or of a weight. The host has checked the indices.

#include <metal_stdlib>
#include "arguments.h"
#include "blocks.h"
#include "vectors.h"

using namespace metal;

/// `y[r] = x[indices[r]]`; a thread copies four features.
kernel void get_rows(constant GetRows& args [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     device const float* x [[buffer(2)]],
                     device const int* indices [[buffer(3)]],
                     uint2 position [[thread_position_in_grid]]) {
    const uint first = 4 * position.x;
    if (first >= args.width) {
        return;
    }
    const uint left = args.width - first;
    device const float* from = x + ulong(indices[position.y]) * args.x_stride + first;
    put_vector(y + ulong(position.y) * args.y_stride + first, vector_at(from, left), left);
}

/// `y[r] = table[indices[r]]`, dequantized. A thread computes the part of a block, then the one that is a row of the
/// grid further on.
template <typename Block>
kernel void embed(constant Embed& args [[buffer(0)]],
                  device float* y [[buffer(1)]],
                  device const uchar* table [[buffer(2)]],
                  device const int* indices [[buffer(3)]],
                  uint2 position [[thread_position_in_grid]],
                  uint2 threads [[threads_per_grid]]) {
    typedef typename Block::Split Split;
    device const uchar* row = table + ulong(indices[position.y]) * args.row_bytes;
    y += ulong(position.y) * args.y_stride;
    const uint blocks = (args.width + Split::elements - 1) / Split::elements;
    for (uint at = position.x; at < blocks * Split::lanes; at += threads.x) {
        const uint block = at / Split::lanes, part = at % Split::lanes;
        const uint first = block * Split::elements;
        const uint left = args.width - first;
        const typename Split::Part w = Block::read(row + ulong(block) * Block::bytes, part, left);
        for (uint v = 0; v < Split::vectors; v++) {
            const uint element = Split::element(part, v);
            put_vector(y + first + element, values<Split>(w, v), left - element);
        }
    }
}

typedef decltype(embed<F32>) embed_kernel;
template [[host_name("embed_f32")]] kernel embed_kernel embed<F32>;
template [[host_name("embed_f16")]] kernel embed_kernel embed<F16>;
template [[host_name("embed_bf16")]] kernel embed_kernel embed<BF16>;
template [[host_name("embed_q4_0")]] kernel embed_kernel embed<Q4_0>;
template [[host_name("embed_q4_1")]] kernel embed_kernel embed<Q4_1>;
template [[host_name("embed_q5_0")]] kernel embed_kernel embed<Q5_0>;
template [[host_name("embed_q5_1")]] kernel embed_kernel embed<Q5_1>;
template [[host_name("embed_q8_0")]] kernel embed_kernel embed<Q8_0>;
template [[host_name("embed_q4_k")]] kernel embed_kernel embed<Q4_K>;
template [[host_name("embed_q5_k")]] kernel embed_kernel embed<Q5_K>;
template [[host_name("embed_q6_k")]] kernel embed_kernel embed<Q6_K>;
