// Sums of the rows of a weight and of up to eight rows of activations.
//
// A simdgroup reads and decodes its parts of the weight once, and keeps them in registers for all rows: rows need
// no more than a sum per output each. Lanes share blocks and sum as in `matvec.metal`, so that a row has the same bits.
#pragma once

#include "products.h"

/// The most rows that a threadgroup takes.
static constant constexpr uint max_batch = 8;
/// Rows that a threadgroup takes, from 1 to `max_batch`: a pipeline has the registers of its own count.
constant uint batch [[function_constant(1)]];

/// A lane's sums of neighbouring outputs, by row.
template <uint Outputs> struct Sums {
    float of[max_batch][Outputs];
};

/// Rows of activations, as they are in memory.
struct PlainRows {
    device const float* x;
    uint stride;

    template <typename Split>
    void read(uint row, uint at, uint part, uint left, thread float4* xs) const {
        read_part<Split>(x + ulong(row) * stride + at, part, left, xs);
    }
};

/// Sums over the lane's parts of `outputs` rows of the weight, from `weight` on, and of the first `rows` rows of `x`. Beyond
/// the last output there is nothing to read.
template <typename Block, uint Outputs, typename Input>
inline Sums<Outputs> sums_of(thread const Input& x, uint rows, uint in_width,
                             device const uchar* weight, uint row_bytes, uint outputs, uint lane) {
    typedef typename Block::Split Split;
    constexpr uint step = 32 / Split::lanes * Split::elements;
    const uint part = lane % Split::lanes;
    const uint end = outputs > 0 ? in_width : 0;
    Sums<Outputs> sums = {};
    for (uint at = lane / Split::lanes * Split::elements; at < end; at += step) {
        const uint left = end - at;
        device const uchar* block = weight + ulong(at / Split::elements) * Block::bytes;
        typename Split::Part parts[Outputs];
#pragma clang loop unroll(full)
        for (uint o = 0; o < Outputs; o++) {
            if (o < outputs) {
                parts[o] = Block::read(block + ulong(o) * row_bytes, part, left);
            }
        }
#pragma clang loop unroll(full)
        for (uint r = 0; r < max_batch; r++) {
            if (r < rows) {
                float4 xs[Split::vectors];
                x.template read<Split>(r, at, part, left, xs);
#pragma clang loop unroll(full)
                for (uint o = 0; o < Outputs; o++) {
                    if (o < outputs) {
                        sums.of[r][o] += dot_part<Split>(parts[o], xs);
                    }
                }
            }
        }
    }
    return sums;
}
