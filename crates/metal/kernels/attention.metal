// Softmax attention of any shape over the cells of a KV region. The host has checked the windows.
//
// One threadgroup per query head and row. The row's window is cut into blocks of 32 keys from its own start,
// whatever the other rows see, and simdgroup `s` takes blocks `s`, `s + simdgroups` and so on with a running
// softmax of its own; at the end they are merged through threadgroup memory.
//
// In a simdgroup, eight lanes share a key, 32 of its features at a time: one vector per lane, 128 adjacent bytes
// of f32 or one block of q8_0. A score then costs three shuffles for four keys, where all 32 lanes on one key would
// need five for each, and would idle with heads of less than 128 features. A lane per key would need none, but
// spread each load over 32 rows.

#include <metal_stdlib>
#include "arguments.h"
#include "kv_cells.h"
#include "windows.h"

using namespace metal;

constant uint head_dim [[function_constant(0)]];
/// Integers of a row of the windows: 1 for a position, 2 for a span, 8 for a map of four runs.
constant uint window_width [[function_constant(1)]];

/// Keys per block, one per lane.
constant constexpr uint BLOCK = 32;
/// Lanes that share a key.
constant constexpr uint LANES = 8;
/// Keys that a simdgroup reads together.
constant constexpr uint KEYS = 32 / LANES;
/// Features of a key that its lanes read together.
constant constexpr uint STRIP = 4 * LANES;
/// Most strips of a head. Loops over them are unrolled for all, so that arrays are registers; those that a head does
/// not have are gone once its size is known.
constant constexpr uint MOST_STRIPS = 16;
/// Strips that are merged together.
constant constexpr uint MERGED = 4;
constant constexpr uint MOST_SIMDGROUPS = 4;

/// Strips of a head.
constant uint strips = (head_dim + STRIP - 1) / STRIP;

/// Features `first` to `first + 3` of a head, zeros after its end.
template <typename Cells>
float4 four_of(device const uchar* head, uint first) {
    if (head_dim % 4 == 0) {
        return first < head_dim ? Cells::four_at(head, first) : float4(0.0f);
    }
    float4 x = float4(0.0f);
#pragma clang loop unroll(full)
    for (uint i = 0; i < 4 && first + i < head_dim; i++) {
        x[i] = Cells::at(head, first + i);
    }
    return x;
}

/// A softmax over the keys so far, and the values weighted by it. Lanes have the sum of the weights of their own
/// keys, and features of the values of the keys that they share.
struct Running {
    float largest;
    float sum;
    float4 outputs[MOST_STRIPS];
};

/// Score of the lane's key, the one that its lanes read in round `lane % LANES`; negative infinity if there are
/// less than that among the `count` from `start` on.
template <typename Cells>
float score_of(thread const float4* q, Heads keys, thread const Window& window, uint start,
               uint count, uint lane) {
    float score = -INFINITY;
    for (uint round = 0; round * KEYS < count; round++) {
        const uint key = round * KEYS + lane / LANES;
        float product = 0.0f;
        if (key < count) {
            device const uchar* head = keys.of(window.cell(start + key));
#pragma clang loop unroll(full)
            for (uint strip = 0; strip < MOST_STRIPS && strip < strips; strip++) {
                product += dot(q[strip], four_of<Cells>(head, strip * STRIP + lane % LANES * 4));
            }
        }
        product += simd_shuffle_xor(product, 1);
        product += simd_shuffle_xor(product, 2);
        product += simd_shuffle_xor(product, 4);
        if (key < count && lane % LANES == round) {
            score = product;
        }
    }
    return score;
}

/// Adds the values of the keys, each weighted by the lane that has its score. A value without a key is not read:
/// a weight of 0 would let one through that is not finite.
template <typename Cells>
void add_values(thread Running& running, float weight, Heads values, thread const Window& window,
                uint start, uint count, uint lane) {
    for (uint round = 0; round * KEYS < count; round++) {
        const uint key = round * KEYS + lane / LANES;
        const float of_key = simd_shuffle(weight, ushort(lane / LANES * LANES + round));
        if (key < count) {
            device const uchar* head = values.of(window.cell(start + key));
#pragma clang loop unroll(full)
            for (uint strip = 0; strip < MOST_STRIPS && strip < strips; strip++) {
                const float4 value = four_of<Cells>(head, strip * STRIP + lane % LANES * 4);
                running.outputs[strip] += of_key * value;
            }
        }
    }
}

/// Every `simdgroups`-th block of the window.
template <typename Cells>
void attend(thread Running& running, thread const float4* q, Heads keys, Heads values,
            thread const Window& window, uint lane, uint simdgroup, uint simdgroups) {
    for (uint start = simdgroup * BLOCK; start < window.keys; start += simdgroups * BLOCK) {
        const uint count = min(window.keys - start, BLOCK);
        const float score = score_of<Cells>(q, keys, window, start, count, lane);
        const float largest = max(running.largest, simd_max(score));
        const float rescale = exp(running.largest - largest);
        const float weight = exp(score - largest);
        running.largest = largest;
        running.sum = running.sum * rescale + weight;
#pragma clang loop unroll(full)
        for (uint strip = 0; strip < MOST_STRIPS && strip < strips; strip++) {
            running.outputs[strip] *= rescale;
        }
        add_values<Cells>(running, weight, values, window, start, count, lane);
    }
    running.sum = simd_sum(running.sum);
#pragma clang loop unroll(full)
    for (uint strip = 0; strip < MOST_STRIPS && strip < strips; strip++) {
        running.outputs[strip] += simd_shuffle_xor(running.outputs[strip], LANES);
        running.outputs[strip] += simd_shuffle_xor(running.outputs[strip], 2 * LANES);
    }
}

/// Factor on the outputs of each simdgroup, such that they add up to the result: none if there is no key.
struct Factors {
    float of[MOST_SIMDGROUPS];
};

/// `states` has the largest score and the sum of the weights of each simdgroup.
Factors factors_of(threadgroup const float2* states, uint keys, uint simdgroups) {
    float largest = -INFINITY;
#pragma clang loop unroll(full)
    for (uint s = 0; s < MOST_SIMDGROUPS && s < simdgroups; s++) {
        largest = max(largest, states[s].x);
    }
    Factors factors;
    float sum = 0.0f;
#pragma clang loop unroll(full)
    for (uint s = 0; s < MOST_SIMDGROUPS && s < simdgroups; s++) {
        factors.of[s] = exp(states[s].x - largest);
        sum += factors.of[s] * states[s].y;
    }
#pragma clang loop unroll(full)
    for (uint s = 0; s < MOST_SIMDGROUPS && s < simdgroups; s++) {
        factors.of[s] = keys == 0 ? 0.0f : factors.of[s] / sum;
    }
    return factors;
}

/// `y = softmax(scale * q k) v` over the cells of each row's window; zeros for an empty one.
template <typename Cells>
kernel void attention(constant Attention& args [[buffer(0)]],
                      device float* y [[buffer(1)]],
                      device const float* q [[buffer(2)]],
                      device const uchar* keys [[buffer(3)]],
                      device const uchar* values [[buffer(4)]],
                      device const int* windows [[buffer(5)]],
                      uint2 place [[threadgroup_position_in_grid]],
                      uint2 threads [[threads_per_threadgroup]],
                      uint thread_index [[thread_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]],
                      uint simdgroup [[simdgroup_index_in_threadgroup]],
                      uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float4 outputs[MOST_SIMDGROUPS][MERGED * LANES];
    threadgroup float2 states[MOST_SIMDGROUPS];
    const ulong row = place.y;
    q += row * args.q_stride + place.x * head_dim;
    y += row * args.y_stride + place.x * head_dim;
    const uint part = place.x / args.group * Cells::bytes(head_dim);
    const Window window = window_of(windows + row * window_width, window_width);

    float4 scaled[MOST_STRIPS];
    Running running;
    running.largest = -INFINITY;
    running.sum = 0.0f;
#pragma clang loop unroll(full)
    for (uint strip = 0; strip < MOST_STRIPS && strip < strips; strip++) {
        const uint first = strip * STRIP + lane % LANES * 4;
#pragma clang loop unroll(full)
        for (uint i = 0; i < 4; i++) {
            scaled[strip][i] = first + i < head_dim ? q[first + i] * args.scale : 0.0f;
        }
        running.outputs[strip] = float4(0.0f);
    }
    attend<Cells>(running, scaled, Heads{keys + part, args.cell_bytes},
                  Heads{values + part, args.cell_bytes}, window, lane, simdgroup, simdgroups);

    if (lane == 0) {
        states[simdgroup] = float2(running.largest, running.sum);
    }
#pragma clang loop unroll(full)
    for (uint first = 0; first < MOST_STRIPS && first < strips; first += MERGED) {
        if (first > 0) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
#pragma clang loop unroll(full)
        for (uint strip = 0; strip < MERGED && first + strip < strips; strip++) {
            if (lane < LANES) {
                outputs[simdgroup][strip * LANES + lane] = running.outputs[first + strip];
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const Factors factors = factors_of(states, window.keys, simdgroups);
        const uint end = min(head_dim - first * STRIP, MERGED * STRIP);
        for (uint i = thread_index; i < end; i += threads.x) {
            float sum = 0.0f;
#pragma clang loop unroll(full)
            for (uint s = 0; s < MOST_SIMDGROUPS && s < simdgroups; s++) {
                sum += factors.of[s] * ((threadgroup const float*)outputs[s])[i];
            }
            y[first * STRIP + i] = sum;
        }
    }
}

typedef decltype(attention<KvF32>) attention_kernel;
template [[host_name("attention_f32")]] kernel attention_kernel attention<KvF32>;
template [[host_name("attention_f16")]] kernel attention_kernel attention<KvF16>;
template [[host_name("attention_q8_0")]] kernel attention_kernel attention<KvQ8_0>;
