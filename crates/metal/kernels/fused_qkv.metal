// Queries, keys and values of generated rows: normalization of the rows, products, biases, normalization of the heads,
// rotation, and the store of keys and values. The bits are those of one kernel after the other.
//
// A threadgroup computes one head of queries, keys or values, which is in its memory until it is whole: heads are
// normalized, and rotated by pairs of features, which different simdgroups compute.

#include <metal_stdlib>
#include "arguments.h"
#include "fused.h"
#include "kv_cells.h"
#include "rotations.h"

using namespace metal;

constant uint q_type [[function_constant(5)]];
constant uint k_type [[function_constant(6)]];
constant uint v_type [[function_constant(7)]];
constant bool biased [[function_constant(8)]];
constant bool heads_normalized [[function_constant(9)]];
constant bool interleaved [[function_constant(10)]];
/// Of the region: 0 for f32, 1 for f16, 8 for q8_0, numbers of GGUF.
constant uint format [[function_constant(11)]];

/// Features of the largest head.
constant constexpr uint max_head = 256;

/// Adds the products of a head to `head`, `width` features per row.
inline void put_head(thread const FusedProducts& products, threadgroup float* head, device const float* bias, uint width) {
    const uint feature = products.first + products.lane;
    if (!products.has_output()) {
        return;
    }
#pragma clang loop unroll(full)
    for (uint r = 0; r < max_batch; r++) {
        if (r < products.rows.count) {
            const float value = products.output[r];
            head[r * width + feature] = biased ? value + bias[feature] : value;
        }
    }
}

/// A row's head of queries or keys.
struct Head {
    threadgroup const float* features;
    device const float* gain;
    float factor;
    uint n_rot;
    int position;
    constant float2* turns;

    float at(uint i) const {
        return heads_normalized ? normalized_by(factor, features[i], gain[i]) : features[i];
    }

    /// Feature `i`, rotated.
    float turned(uint i) const {
        if (i >= n_rot) {
            return at(i);
        }
        const uint half_rot = n_rot / 2;
        const uint pair = interleaved ? i / 2 : i % half_rot;
        const uint first = interleaved ? 2 * pair : pair;
        const uint second = interleaved ? first + 1 : first + half_rot;
        const float a = at(first);
        const float b = at(second);
        const float2 turn = rotation(position, turns[pair]);
        return i == first ? turned_first(a, b, turn) : turned_second(a, b, turn);
    }
};

/// Stores the lane's feature of a cell, of `valid` lanes. All lanes take part.
inline void put_feature(device uchar* cell, uint feature, bool valid, uint lane, float value) {
    if (format == 8) {
        // Heads are whole blocks.
        KvQ8_0::put_block(cell + KvQ8_0::bytes(feature - lane), lane, value);
    } else if (valid && format == 1) {
        KvF16::put(cell, feature, value);
    } else if (valid) {
        KvF32::put(cell, feature, value);
    }
}

/// `y = rotated(normalized(q))`, and `k` and `v` into the rows' cells. The heads of queries come first in the grid, then those
/// of keys and of values. The host has checked the cells.
kernel void fused_qkv(constant FusedQkv& args [[buffer(0)]],
                      device float* y [[buffer(1)]],
                      device uchar* keys [[buffer(2)]],
                      device uchar* values [[buffer(3)]],
                      device const float* x [[buffer(4)]],
                      device const uchar* q_weight [[buffer(5)]],
                      device const uchar* k_weight [[buffer(6)]],
                      device const uchar* v_weight [[buffer(7)]],
                      device const int* positions [[buffer(8)]],
                      constant float2* turns [[buffer(9)]],
                      device const int* cells [[buffer(10)]],
                      device const float* gain [[buffer(11), function_constant(normalized)]],
                      device const float* q_bias [[buffer(12), function_constant(biased)]],
                      device const float* k_bias [[buffer(13), function_constant(biased)]],
                      device const float* v_bias [[buffer(14), function_constant(biased)]],
                      device const float* q_gain [[buffer(15), function_constant(heads_normalized)]],
                      device const float* k_gain [[buffer(16), function_constant(heads_normalized)]],
                      uint2 group [[threadgroup_position_in_grid]],
                      uint simdgroup [[simdgroup_index_in_threadgroup]],
                      uint simdgroups [[simdgroups_per_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float squares[max_batch * norm_parts];
    threadgroup float features[max_batch * max_head];
    const uint width = args.head_dim;
    const bool is_q = group.x < args.q_heads;
    const bool is_k = !is_q && group.x < args.q_heads + args.kv_heads;
    const uint head = is_q ? group.x : group.x - args.q_heads - (is_k ? 0 : args.kv_heads);
    FusedProducts products;
    products.rows = rows_of(x, args.x_stride, args.in_width, group.y, args.rows);
    if (normalized) {
        normalize(products.rows, gain, args.eps, squares, lane, simdgroup, simdgroups);
    }

    const uint type = is_q ? q_type : is_k ? k_type : v_type;
    products.row_bytes = is_q ? args.q_row_bytes : is_k ? args.k_row_bytes : args.v_row_bytes;
    products.weight = (is_q ? q_weight : is_k ? k_weight : v_weight) + ulong(head * width) * products.row_bytes;
    products.out_width = width;
    products.lane = lane;
    device const float* bias = x;
    if (biased) {
        bias = (is_q ? q_bias : is_k ? k_bias : v_bias) + head * width;
    }
    for (uint first = simdgroup * span; first < width; first += simdgroups * span) {
        products.first = first;
        // Types that are the same are one branch: the others are known not to be taken.
        if (type == q_type) {
            run_with(q_type, products);
        } else if (type == k_type) {
            run_with(k_type, products);
        } else {
            run_with(v_type, products);
        }
        put_head(products, features, bias, width);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const uint rows = products.rows.count;
    const bool is_normalized = heads_normalized && (is_q || is_k);
    if (is_normalized) {
        for (uint task = simdgroup; task < rows * norm_parts; task += simdgroups) {
            threadgroup const float* row = features + task / norm_parts * width;
            const float sum = squares_of(row, width, task % norm_parts, lane);
            if (lane == 0) {
                squares[task] = sum;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    const uint strips = (width + 31) / 32;
    for (uint task = simdgroup; task < rows * strips; task += simdgroups) {
        const uint r = task / strips;
        const uint row = products.rows.first + r;
        const uint i = 32 * (task % strips) + lane;
        const bool valid = i < width;
        Head of;
        of.features = features + r * width;
        of.n_rot = args.n_rot;
        of.turns = turns;
        if (is_normalized) {
            of.gain = is_q ? q_gain : k_gain;
            of.factor = norm_factor(squares + r * norm_parts, width, is_q ? args.q_eps : args.k_eps, lane);
        }
        float value = 0.0f;
        if (valid && (is_q || is_k)) {
            of.position = positions[row];
            value = of.turned(i);
        } else if (valid) {
            value = of.features[i];
        }
        if (is_q) {
            if (valid) {
                y[ulong(row) * args.y_stride + head * width + i] = value;
            }
        } else {
            device uchar* cell = (is_k ? keys : values) + ulong(cells[row]) * args.cell_bytes;
            put_feature(cell, head * width + i, valid, lane, value);
        }
    }
}
