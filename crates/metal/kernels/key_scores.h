// Scores of generated rows with heads of 64 or 128 features: a simdgroup takes 32 keys with query heads that share them.
//
// Lanes have four features of a key each, so that 16 or 32 of them share it and a query head takes about 12 registers
// of a lane: four of its query, four of its output, and its softmax. That bounds the heads of a simdgroup.
#pragma once

#include "kv_cells.h"
#include "windows.h"

constant uint head_dim [[function_constant(0)]];
/// Integers of a row of the windows.
constant uint window_width [[function_constant(1)]];
/// Query heads of a simdgroup.
constant uint heads [[function_constant(2)]];

/// Keys per block, one per lane.
constant constexpr uint BLOCK = 32;
/// Most query heads of a simdgroup. Loops over them are unrolled for all, so that arrays are registers.
constant constexpr uint MOST_HEADS = 8;

/// Lanes that share a key.
constant uint lanes = head_dim / 4;
/// Keys that a simdgroup reads together.
constant uint keys_together = 32 / lanes;

/// The lane's features of the first `present` of the query heads at `q`, times `scale`; zeros for the others.
inline void read_queries(thread float4* scaled, device const float* q, uint present, float scale, uint lane) {
#pragma clang loop unroll(full)
    for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
        scaled[h] = float4(0.0f);
        if (h < present) {
#pragma clang loop unroll(full)
            for (uint i = 0; i < 4; i++) {
                scaled[h][i] = q[h * head_dim + lane % lanes * 4 + i] * scale;
            }
        }
    }
}

/// Scores of the lane's key, the one that its lanes read in round `lane % lanes`: number
/// `lane % lanes * keys_together + lane / lanes`; negative infinity if there are less
/// than that among the `count` from `start` on.
template <typename Cells>
void score(thread float* scores, thread const float4* q, Heads keys, thread const Window& window,
           uint start, uint count, uint lane) {
#pragma clang loop unroll(full)
    for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
        scores[h] = -INFINITY;
    }
    for (uint round = 0; round * keys_together < count; round++) {
        const uint key = round * keys_together + lane / lanes;
        float4 features = float4(0.0f);
        if (key < count) {
            features = Cells::four_at(keys.of(window.cell(start + key)), lane % lanes * 4);
        }
#pragma clang loop unroll(full)
        for (uint h = 0; h < MOST_HEADS && h < heads; h++) {
            float product = metal::dot(q[h], features);
            for (uint step = 1; step < lanes; step *= 2) {
                product += metal::simd_shuffle_xor(product, ushort(step));
            }
            if (key < count && lane % lanes == round) {
                scores[h] = product;
            }
        }
    }
}
