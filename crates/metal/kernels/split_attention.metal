// Softmax attention of generated rows in two passes over their keys, with heads of 64 or 128 features. The host has
// checked the windows.
//
// The first pass leaves the score of every key and the largest of each block of 32, counted from the window's own
// start. The second knows the largest of all then, and needs no running softmax: it weights values by the
// exponentials, blocks in turn by simdgroup.

#include <metal_stdlib>
#include "arguments.h"
#include "key_scores.h"

using namespace metal;

constant constexpr uint MOST_SIMDGROUPS = 8;
constant constexpr uint MOST_FEATURES = 128;

/// First score of a head of a row: scores of all blocks, then the largest of each.
inline ulong scores_at(ulong row, uint head, uint heads, uint blocks) {
    return (row * heads + head) * (BLOCK + 1) * blocks;
}

/// Scores of a block; of blocks that a row does not have, nothing is written.
template <typename Cells>
kernel void split_scores(constant SplitScores& args [[buffer(0)]],
                         device float* scores [[buffer(1)]],
                         device const float* q [[buffer(2)]],
                         device const uchar* keys [[buffer(3)]],
                         device const int* windows [[buffer(4)]],
                         uint3 place [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const ulong row = place.z;
    const uint slices = (args.group + heads - 1) / heads;
    const uint kv_head = place.x / slices;
    const uint in_group = place.x % slices * heads;
    const uint first_head = kv_head * args.group + in_group;
    // The last slice of a group may have less heads than the others.
    const uint present = min(args.group - in_group, heads);
    const Window window = window_of(windows + row * window_width, window_width);
    const uint start = place.y * BLOCK;
    const uint count = min(window.keys - min(start, window.keys), BLOCK);

    float4 scaled[MOST_HEADS];
    read_queries(scaled, q + row * args.q_stride + first_head * head_dim, present, args.scale, lane);
    const Heads of_head = Heads{keys + kv_head * Cells::bytes(head_dim), args.cell_bytes};
    float of_key[MOST_HEADS];
    score<Cells>(of_key, scaled, of_head, window, start, count, lane);
    const uint own_key = lane % lanes * keys_together + lane / lanes;

#pragma clang loop unroll(full)
    for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
        const float largest = simd_max(of_key[h]);
        device float* of_row = scores + scores_at(row, first_head + h, args.heads, args.blocks);
        if (h < present && own_key < count) {
            of_row[start + own_key] = of_key[h];
        }
        if (h < present && lane == 0 && count > 0) {
            of_row[BLOCK * args.blocks + place.y] = largest;
        }
    }
}

/// The largest score of a row's head. All lanes take part.
inline float largest_of(device const float* of_blocks, uint blocks, uint lane) {
    float largest = -INFINITY;
    for (uint block = lane; block < blocks; block += 32) {
        largest = max(largest, of_blocks[block]);
    }
    return simd_max(largest);
}

/// `y` from the scores; zeros for an empty window.
template <typename Cells>
kernel void split_values(constant SplitValues& args [[buffer(0)]],
                         device float* y [[buffer(1)]],
                         device const float* scores [[buffer(2)]],
                         device const uchar* values [[buffer(3)]],
                         device const int* windows [[buffer(4)]],
                         uint2 place [[threadgroup_position_in_grid]],
                         uint2 threads [[threads_per_threadgroup]],
                         uint thread_index [[thread_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simdgroup [[simdgroup_index_in_threadgroup]],
                         uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float4 outputs[MOST_SIMDGROUPS][MOST_FEATURES / 4];
    threadgroup float sums[MOST_SIMDGROUPS];
    const ulong row = place.y;
    const Window window = window_of(windows + row * window_width, window_width);
    const uint blocks = (window.keys + BLOCK - 1) / BLOCK;
    scores += scores_at(row, place.x, args.heads, args.blocks);
    const float largest = largest_of(scores + BLOCK * args.blocks, blocks, lane);
    const uint part = place.x / args.group * Cells::bytes(head_dim);
    const Heads of_head = Heads{values + part, args.cell_bytes};

    float sum = 0.0f;
    float4 output = float4(0.0f);
    for (uint block = simdgroup; block < blocks; block += simdgroups) {
        const uint start = block * BLOCK;
        const uint count = min(window.keys - start, BLOCK);
        const float weight = lane < count ? exp(scores[start + lane] - largest) : 0.0f;
        sum += weight;
        for (uint round = 0; round * keys_together < count; round++) {
            const uint key = round * keys_together + lane / lanes;
            const float of_key = simd_shuffle(weight, ushort(key));
            // A weight of 0 would let a value through that is not finite.
            if (key < count) {
                device const uchar* head = of_head.of(window.cell(start + key));
                output += of_key * Cells::four_at(head, lane % lanes * 4);
            }
        }
    }
    sum = simd_sum(sum);
    for (uint step = lanes; step < 32; step *= 2) {
        output += simd_shuffle_xor(output, ushort(step));
    }
    if (lane < lanes) {
        outputs[simdgroup][lane] = output;
    }
    if (lane == 0) {
        sums[simdgroup] = sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < head_dim; i += threads.x) {
        float all = 0.0f, weighted = 0.0f;
        for (uint s = 0; s < simdgroups; s++) {
            all += sums[s];
            weighted += ((threadgroup const float*)outputs[s])[i];
        }
        y[row * args.y_stride + place.x * head_dim + i] = window.keys == 0 ? 0.0f : weighted / all;
    }
}

typedef decltype(split_scores<KvF32>) split_scores_kernel;
template [[host_name("split_scores_f32")]] kernel split_scores_kernel split_scores<KvF32>;
template [[host_name("split_scores_f16")]] kernel split_scores_kernel split_scores<KvF16>;
template [[host_name("split_scores_q8_0")]] kernel split_scores_kernel split_scores<KvQ8_0>;

typedef decltype(split_values<KvF32>) split_values_kernel;
template [[host_name("split_values_f32")]] kernel split_values_kernel split_values<KvF32>;
template [[host_name("split_values_f16")]] kernel split_values_kernel split_values<KvF16>;
template [[host_name("split_values_q8_0")]] kernel split_values_kernel split_values<KvQ8_0>;
