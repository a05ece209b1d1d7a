// Softmax attention of generated rows with heads of 64 or 128 features. The host has checked the windows.
//
// A row's window is cut into chunks from its own start, of a length that its own number of keys decides.
// One simdgroup takes a chunk, with all query heads that share its keys and values, and leaves a partial of each:
// outputs, largest score and sum of weights. A second kernel combines the chunks.

#include <metal_stdlib>
#include "arguments.h"
#include "key_scores.h"

using namespace metal;

/// Most chunks of a window.
constant uint most_chunks [[function_constant(3)]];

/// Floats of a partial: the outputs, the largest score, the sum of the weights.
constant uint partial_width = head_dim + 2;

/// Keys of a chunk of a window of `keys`, whole blocks.
inline uint chunk_length(uint keys) {
    return max((keys + most_chunks * BLOCK - 1) / (most_chunks * BLOCK), 1u) * BLOCK;
}

/// A softmax over the keys so far, and the values weighted by it. Lanes have the sum of the weights of their own
/// keys, and four features of the values of the keys that they share.
struct Running {
    float largest;
    float sum;
    float4 output;
};

/// Adds the values of the keys, each weighted by the lane that has its score. A value without a key is not read:
/// a weight of 0 would let one through that is not finite.
template <typename Cells>
void add_values(thread Running* running, thread const float* weights, Heads values,
                thread const Window& window, uint start, uint count, uint lane) {
    for (uint round = 0; round * keys_together < count; round++) {
        const uint key = round * keys_together + lane / lanes;
        float4 features = float4(0.0f);
        if (key < count) {
            features = Cells::four_at(values.of(window.cell(start + key)), lane % lanes * 4);
        }
#pragma clang loop unroll(full)
        for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
            const float weight = simd_shuffle(weights[h], ushort(lane / lanes * lanes + round));
            if (key < count) {
                running[h].output += weight * features;
            }
        }
    }
}

/// The keys from `first` to `end`.
template <typename Cells>
void attend(thread Running* running, thread const float4* q, Heads keys, Heads values,
            thread const Window& window, uint first, uint end, uint lane) {
    for (uint start = first; start < end; start += BLOCK) {
        const uint count = min(end - start, BLOCK);
        float weights[MOST_HEADS];
        score<Cells>(weights, q, keys, window, start, count, lane);
#pragma clang loop unroll(full)
        for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
            const float largest = max(running[h].largest, simd_max(weights[h]));
            const float rescale = exp(running[h].largest - largest);
            weights[h] = exp(weights[h] - largest);
            running[h].largest = largest;
            running[h].sum = running[h].sum * rescale + weights[h];
            running[h].output *= rescale;
        }
        add_values<Cells>(running, weights, values, window, start, count, lane);
    }
}

/// Partials of a chunk of each row's window; of chunks that a row does not have, nothing is written.
template <typename Cells>
kernel void flash_decode(constant FlashDecode& args [[buffer(0)]],
                         device float* partials [[buffer(1)]],
                         device const float* q [[buffer(2)]],
                         device const uchar* keys [[buffer(3)]],
                         device const uchar* values [[buffer(4)]],
                         device const int* windows [[buffer(5)]],
                         uint3 place [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const ulong row = place.z;
    const uint slices = (args.group + heads - 1) / heads;
    const uint kv_head = place.x / slices;
    const uint in_group = place.x % slices * heads;
    const uint first_head = kv_head * args.group + in_group;
    // The last slice of a group may have less heads than the others.
    const uint present = min(args.group - in_group, heads);
    const uint part = kv_head * Cells::bytes(head_dim);
    const Window window = window_of(windows + row * window_width, window_width);
    const uint length = chunk_length(window.keys);
    const uint first = place.y * length;
    const uint end = min(first + length, window.keys);

    float4 scaled[MOST_HEADS];
    read_queries(scaled, q + row * args.q_stride + first_head * head_dim, present, args.scale, lane);
    Running running[MOST_HEADS];
#pragma clang loop unroll(full)
    for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
        running[h] = Running{-INFINITY, 0.0f, float4(0.0f)};
    }
    attend<Cells>(running, scaled, Heads{keys + part, args.cell_bytes},
                  Heads{values + part, args.cell_bytes}, window, first, end, lane);

#pragma clang loop unroll(full)
    for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
        const float sum = simd_sum(running[h].sum);
        float4 output = running[h].output;
        for (uint step = lanes; step < 32; step *= 2) {
            output += simd_shuffle_xor(output, ushort(step));
        }
        const ulong index = (row * args.heads + first_head + h) * args.chunks + place.y;
        device float2* partial = (device float2*)(partials + index * partial_width);
        if (h < present && first < end && lane < lanes) {
            partial[2 * lane] = output.xy;
            partial[2 * lane + 1] = output.zw;
        }
        if (h < present && first < end && lane == 0) {
            partial[head_dim / 2] = float2(running[h].largest, sum);
        }
    }
}

/// A feature of `y` from the partials of the row's chunks; zeros for an empty window.
kernel void flash_decode_combine(constant FlashCombine& args [[buffer(0)]],
                                 device float* y [[buffer(1)]],
                                 device const float* partials [[buffer(2)]],
                                 device const int* windows [[buffer(3)]],
                                 uint2 place [[thread_position_in_grid]]) {
    const ulong row = place.y;
    const uint keys = window_of(windows + row * window_width, window_width).keys;
    const uint length = chunk_length(keys);
    const uint chunks = (keys + length - 1) / length;
    partials += (row * args.heads + place.x / head_dim) * args.chunks * partial_width;
    float largest = -INFINITY;
    for (uint chunk = 0; chunk < chunks; chunk++) {
        largest = max(largest, partials[chunk * partial_width + head_dim]);
    }
    float sum = 0.0f;
    float output = 0.0f;
    for (uint chunk = 0; chunk < chunks; chunk++) {
        device const float* partial = partials + chunk * partial_width;
        const float factor = exp(partial[head_dim] - largest);
        sum += factor * partial[head_dim + 1];
        output += factor * partial[place.x % head_dim];
    }
    y[row * args.y_stride + place.x] = chunks == 0 ? 0.0f : output / sum;
}

typedef decltype(flash_decode<KvF32>) flash_decode_kernel;
template [[host_name("flash_decode_f32")]] kernel flash_decode_kernel flash_decode<KvF32>;
template [[host_name("flash_decode_f16")]] kernel flash_decode_kernel flash_decode<KvF16>;
template [[host_name("flash_decode_q8_0")]] kernel flash_decode_kernel flash_decode<KvQ8_0>;
