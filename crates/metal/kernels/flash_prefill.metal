// Softmax attention of prompt rows with heads of 64 or 128 features. The host has checked the windows.
//
// The query heads of all rows that share a key and value head are rows of one matrix, row by row: 32 of these queries
// are a threadgroup's, 8 a simdgroup's, whatever the number of heads that share. Keys and values go through
// threadgroup memory in tiles of 64 keys and 32 features, which all of the threadgroup's queries use; outputs, queries
// and weights stay in registers. Tiles are floats, as the keys and values of a region may be.
//
// A query's tiles are cut from the start of its own window, and count its keys through all runs. Windows of rows that
// begin alike, as those of one sequence do, therefore share tiles: a threadgroup takes the longest window that is left
// with all that it begins with, until none is left. Keys that a query does not see weigh nothing, and tiles of them
// leave its outputs as they are, so that its bits do not depend on the company.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
#include "arguments.h"
#include "kv_cells.h"
#include "windows.h"

using namespace metal;

constant uint head_dim [[function_constant(0)]];
/// Integers of a row of the windows.
constant uint window_width [[function_constant(1)]];

/// Queries of a simdgroup, and rows of a fragment.
constant constexpr uint QUERIES = 8;
constant constexpr uint SIMDGROUPS = 4;
/// Keys and features of a tile.
constant constexpr uint KEYS = 64, STRIP = 32;
/// Elements between keys of a tile: the rows of a fragment lie in different banks, where there are 32 of 4 bytes.
constant constexpr uint TILE_STRIDE = STRIP + 4;
/// Features that a simdgroup passes on together, queries or outputs. As many as a tile has keys.
constant constexpr uint PASSED = 64;
/// Elements between queries in a simdgroup's own memory: their scores, or features, then a fragment of factors.
constant constexpr uint OWN_STRIDE = KEYS + 8 + 4;
/// Strips of the largest head. Loops over them are unrolled for all, so that arrays are registers.
constant constexpr uint MOST_STRIPS = 4;
constant constexpr uint MOST_FRAGMENTS = MOST_STRIPS * STRIP / 8;
/// Elements of threadgroup memory. Tiles and what simdgroups own take turns.
constant constexpr uint ELEMENTS = SIMDGROUPS * QUERIES * OWN_STRIDE;
static_assert(ELEMENTS >= KEYS * TILE_STRIDE, "a tile fits");

/// Strips of a head.
constant uint strips = head_dim / STRIP;

/// A query as its four lanes see it.
struct Query {
    /// The row of queries and windows. None from the number of rows on.
    uint row;
    uint head;
    /// The query in the simdgroup's own memory.
    threadgroup float* own;
    /// The first of the lane's four vectors, which are 16 elements apart.
    uint first;
    bool exists;

    uint element(uint v) const { return first + 16 * v; }
    threadgroup float4* vector(uint v) const { return (threadgroup float4*)(own + element(v)); }
};

/// A softmax over the keys so far. The four lanes of a query share the largest score; the sum of weights is of a lane's
/// own keys.
struct Softmax {
    float largest;
    float sum;
};

/// Scaled queries as fragments, zeros where there is no query.
inline void load_queries(thread simdgroup_float8x8* queries, Query query, threadgroup const float* own,
                         device const float* q, float scale) {
#pragma clang loop unroll(full)
    for (uint f = 0; f < MOST_FRAGMENTS && 8 * f < head_dim; f += PASSED / 8) {
        if (f > 0) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
#pragma clang loop unroll(full)
        for (uint v = 0; v < 4; v++) {
            float4 features = 0.0f;
            if (query.exists) {
                features = float4(*(device const packed_float4*)(q + 8 * f + query.element(v))) * scale;
            }
            *query.vector(v) = features;
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
        for (uint i = 0; i < PASSED / 8; i++) {
            simdgroup_load(queries[f + i], own + 8 * i, OWN_STRIDE);
        }
    }
}

/// Stores outputs over their sum of weights; zeros for a query without keys.
inline void store_outputs(thread const simdgroup_float8x8* outputs, Query query, threadgroup float* own,
                          device float* y, float sum) {
#pragma clang loop unroll(full)
    for (uint f = 0; f < MOST_FRAGMENTS && 8 * f < head_dim; f += PASSED / 8) {
        if (f > 0) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
#pragma clang loop unroll(full)
        for (uint i = 0; i < PASSED / 8; i++) {
            simdgroup_store(outputs[f + i], own + 8 * i, OWN_STRIDE);
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
        for (uint v = 0; v < 4; v++) {
            if (query.exists) {
                // The sign of a zero may come from keys that weigh nothing: adding 0 makes it positive.
                const float4 output = sum == 0.0f ? float4(0.0f) : *query.vector(v) / sum + 0.0f;
                *(device packed_float4*)(y + 8 * f + query.element(v)) = packed_float4(output);
            }
        }
    }
}

/// Copies features `feature` and on of keys or values `start` and on of a window to a tile, zeros after the last key.
///
/// Zeros are in place of values that are not finite: a query that does not see the key has weight 0 for it, which would
/// not keep them out. The result is the first key that the thread found such values of.
template <typename Cells, bool AreValues>
uint copy_strip(threadgroup float* tile, Heads heads, thread const Window& window, uint start, uint feature,
                uint thread_index) {
    constexpr uint LANES = STRIP / 4, TOGETHER = 32 * SIMDGROUPS / LANES;
    const uint count = min(KEYS, window.keys - start);
    const uint i = thread_index % LANES * 4;
    uint bad = UINT_MAX;
    for (uint first = 0; first < count; first += TOGETHER) {
        const uint key = first + thread_index / LANES;
        float4 features = 0.0f;
        if (key < count) {
            features = Cells::four_at(heads.of(window.cell(start + key)), feature + i);
            if (AreValues && !all(isfinite(features))) {
                features = 0.0f;
                bad = min(bad, start + key);
            }
        }
        *(threadgroup float4*)(tile + key * TILE_STRIDE + i) = features;
    }
    return bad;
}

/// Adds the products of a strip of queries and the first `count` keys of a tile.
inline void add_scores(thread simdgroup_float8x8* scores, thread simdgroup_float8x8* queries,
                       threadgroup const float* tile, uint count) {
#pragma clang loop unroll(full)
    for (uint k = 0; k < KEYS / 8; k++) {
        if (8 * k < count) {
#pragma clang loop unroll(full)
            for (uint f = 0; f < STRIP / 8; f++) {
                simdgroup_float8x8 keys;
                simdgroup_load(keys, tile + 8 * k * TILE_STRIDE + 8 * f, TILE_STRIDE, ulong2(0), true);
                simdgroup_multiply_accumulate(scores[k], queries[f], keys, scores[k]);
            }
        }
    }
}

/// Adds the first `count` values of a tile by their weights to a strip of outputs.
inline void add_values(thread simdgroup_float8x8* outputs, thread simdgroup_float8x8* weights,
                       threadgroup const float* tile, uint count) {
#pragma clang loop unroll(full)
    for (uint k = 0; k < KEYS / 8; k++) {
        if (8 * k < count) {
#pragma clang loop unroll(full)
            for (uint f = 0; f < STRIP / 8; f++) {
                simdgroup_float8x8 values;
                simdgroup_load(values, tile + 8 * k * TILE_STRIDE + 8 * f, TILE_STRIDE);
                simdgroup_multiply_accumulate(outputs[f], weights[k], values, outputs[f]);
            }
        }
    }
}

/// From the scores of a tile in the simdgroup's own memory to weights, and the factor on what was before. The query sees
/// the first `seen` keys; without any, the factor is 1.
inline void weigh(thread Softmax& softmax, Query query, uint seen) {
    float4 scores[4];
    float largest = softmax.largest;
#pragma clang loop unroll(full)
    for (uint v = 0; v < 4; v++) {
        scores[v] = float4(-INFINITY);
        if (query.element(v) < seen) {
            const bool4 is_seen = query.element(v) + uint4(0, 1, 2, 3) < seen;
            scores[v] = select(scores[v], *query.vector(v), is_seen);
        }
        largest = max(largest, max(max(scores[v].x, scores[v].y), max(scores[v].z, scores[v].w)));
    }
    largest = max(largest, simd_shuffle_xor(largest, 1));
    largest = max(largest, simd_shuffle_xor(largest, 2));
    const float factor = seen == 0 ? 1.0f : exp(softmax.largest - largest);
    softmax.largest = largest;
    softmax.sum *= factor;
#pragma clang loop unroll(full)
    for (uint v = 0; v < 4; v++) {
        // Where all scores are negative infinity, the difference is not a number.
        const bool4 is_seen = query.element(v) + uint4(0, 1, 2, 3) < seen;
        const float4 weights = select(float4(0.0f), exp(scores[v] - largest), is_seen);
        softmax.sum += weights.x + weights.y + weights.z + weights.w;
        *query.vector(v) = weights;
    }
    *(threadgroup float2*)(query.own + KEYS + query.first / 2) = float2(factor);
}

/// Stores the scores of `count` keys, and loads the weights and scaled outputs instead.
inline void softmax_tile(thread simdgroup_float8x8* scores, thread simdgroup_float8x8* outputs,
                         thread Softmax& softmax, Query query, threadgroup float* own, uint seen, uint count) {
#pragma clang loop unroll(full)
    for (uint k = 0; k < KEYS / 8; k++) {
        if (8 * k < count) {
            simdgroup_store(scores[k], own + 8 * k, OWN_STRIDE);
        }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    weigh(softmax, query, seen);
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
    for (uint k = 0; k < KEYS / 8; k++) {
        simdgroup_load(scores[k], own + 8 * k, OWN_STRIDE);
    }
    // Element by element: a product with a diagonal matrix would carry what is not finite from query to query.
    simdgroup_float8x8 factors;
    simdgroup_load(factors, own + KEYS, OWN_STRIDE);
#pragma clang loop unroll(full)
    for (uint f = 0; f < MOST_FRAGMENTS && 8 * f < head_dim; f++) {
        outputs[f].thread_elements()[0] *= factors.thread_elements()[0];
        outputs[f].thread_elements()[1] *= factors.thread_elements()[1];
    }
}

/// The window of another lane.
inline Window window_of_lane(Window window, uint lane) {
    const ushort from = ushort(lane);
    return Window{simd_shuffle(window.keys, from), simd_shuffle(window.ends, from),
                  simd_shuffle(window.shifts, from)};
}

/// `y = softmax(scale * q k) v` over the cells of each row's window; zeros for an empty one.
template <typename Cells>
kernel void flash_prefill(constant FlashPrefill& args [[buffer(0)]],
                          device float* y [[buffer(1)]],
                          device const float* q [[buffer(2)]],
                          device const uchar* keys [[buffer(3)]],
                          device const uchar* values [[buffer(4)]],
                          device const int* windows [[buffer(5)]],
                          uint2 place [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    threadgroup float4 memory[ELEMENTS / 4];
    threadgroup uint bad_keys[SIMDGROUPS];
    threadgroup float* tile = (threadgroup float*)memory;
    threadgroup float* own = tile + simdgroup * QUERIES * OWN_STRIDE;

    // Queries are counted through the rows and, within each, through the heads that share keys.
    const uint first_query = place.x * SIMDGROUPS * QUERIES;
    const uint first_row = first_query / args.group;
    const uint index = first_query + simdgroup * QUERIES + lane / 4;
    Query query;
    query.row = index / args.group;
    query.head = place.y * args.group + index % args.group;
    query.own = own + lane / 4 * OWN_STRIDE;
    query.first = lane % 4 * 4;
    query.exists = query.row < args.rows;
    const ulong row = query.exists ? query.row : 0;
    q += row * args.q_stride + query.head * head_dim;
    y += row * args.y_stride + query.head * head_dim;
    const uint part = place.y * Cells::bytes(head_dim);
    const Heads key_heads = {keys + part, args.cell_bytes};
    const Heads value_heads = {values + part, args.cell_bytes};

    simdgroup_float8x8 queries[MOST_FRAGMENTS], outputs[MOST_FRAGMENTS];
    load_queries(queries, query, own, q, args.scale);
#pragma clang loop unroll(full)
    for (uint f = 0; f < MOST_FRAGMENTS && 8 * f < head_dim; f++) {
        outputs[f] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    Softmax softmax = {-INFINITY, 0.0f};
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // Lane `i` keeps whether the threadgroup's row `i` is still to be attended, the same in all simdgroups.
    const uint last_row = min((first_query + SIMDGROUPS * QUERIES - 1) / args.group, args.rows - 1);
    const bool has_row = first_row + lane <= last_row;
    windows += ulong(has_row ? first_row + lane : first_row) * window_width;
    bool is_left = has_row && window_of(windows, window_width).keys > 0;
    while (simd_any(is_left)) {
        const Window of_row = window_of(windows, window_width);
        const uint left = is_left ? of_row.keys : 0;
        const uint most = simd_max(left);
        const uint longest = simd_min(left == most ? lane : 31);
        const Window window = window_of_lane(of_row, longest);
        const bool takes_part = is_left && of_row.begins(window);
        is_left = is_left && !takes_part;
        // Keys that the lane's query sees, and that any of the simdgroup does.
        const uint seen_keys = takes_part ? of_row.keys : 0;
        const uint from = simd_shuffle(seen_keys, ushort(query.row - first_row));
        const uint own_keys = query.exists ? from : 0;
        const uint most_keys = simd_max(own_keys);

        uint bad = UINT_MAX;
        for (uint start = 0; start < window.keys; start += KEYS) {
            const uint seen = min(own_keys - min(own_keys, start), KEYS);
            const uint count = min(most_keys - min(most_keys, start), KEYS);
            simdgroup_float8x8 scores[KEYS / 8];
#pragma clang loop unroll(full)
            for (uint k = 0; k < KEYS / 8; k++) {
                scores[k] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            }
#pragma clang loop unroll(full)
            for (uint s = 0; s < MOST_STRIPS && s < strips; s++) {
                copy_strip<Cells, false>(tile, key_heads, window, start, s * STRIP, thread_index);
                threadgroup_barrier(mem_flags::mem_threadgroup);
                add_scores(scores, queries + s * STRIP / 8, tile, count);
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
            if (count > 0) {
                softmax_tile(scores, outputs, softmax, query, own, seen, count);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
            for (uint s = 0; s < MOST_STRIPS && s < strips; s++) {
                bad = min(bad, copy_strip<Cells, true>(tile, value_heads, window, start, s * STRIP, thread_index));
                threadgroup_barrier(mem_flags::mem_threadgroup);
                add_values(outputs + s * STRIP / 8, scores, tile, count);
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
        }
        // A value that is not finite makes its head of every query that sees it NaN.
        bad = simd_min(bad);
        if (lane == 0) {
            bad_keys[simdgroup] = bad;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
        for (uint s = 0; s < SIMDGROUPS; s++) {
            softmax.sum = own_keys > bad_keys[s] ? NAN : softmax.sum;
        }
    }

    float sum = softmax.sum + simd_shuffle_xor(softmax.sum, 1);
    sum += simd_shuffle_xor(sum, 2);
    store_outputs(outputs, query, own, y, sum);
}

typedef decltype(flash_prefill<KvF32>) flash_prefill_kernel;
template [[host_name("flash_prefill_f32")]] kernel flash_prefill_kernel flash_prefill<KvF32>;
template [[host_name("flash_prefill_f16")]] kernel flash_prefill_kernel flash_prefill<KvF16>;
template [[host_name("flash_prefill_q8_0")]] kernel flash_prefill_kernel flash_prefill<KvQ8_0>;
