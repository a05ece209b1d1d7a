// Softmax attention of prompt rows in three passes: scores, weights, outputs. Heads have 64 or 128 features, and a row
// sees the cells up to its position. The host has checked the positions.
//
// Rows are taken 32 together. A row's scores and then weights, of whole tiles of 64 cells, lie in device memory, tile by
// tile of rows for each head. A tile's passes go as far as the row that sees most. Cells that a row does not see
// have weights of 0 then, which change no sum of finite values; others are kept out of the sums.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
#include "arguments.h"
#include "kv_cells.h"
#include "tiles.h"

using namespace metal;

constant uint head_dim [[function_constant(0)]];

/// Rows and cells of a tile of scores, and features of a tile of outputs.
constant constexpr uint ROWS = 32, CELLS = 64, FEATURES = 64;
constant constexpr uint SIMDGROUPS = 4;
/// Elements between cells of a tile of values; a quarter of the tile has a simdgroup's outputs.
constant constexpr uint VALUE_STRIDE = FEATURES + 8;
static_assert(STEP * VALUE_STRIDE == SIMDGROUPS * SIMDGROUP_ROWS * STRIDE, "outputs and values share memory");

/// Cells that the row of a tile sees that sees most. All lanes take part.
inline uint most_cells(device const int* positions, uint first_row, uint rows, uint lane) {
    const uint row = first_row + lane;
    return simd_max(row < rows ? uint(positions[row]) + 1 : 0u);
}

/// First score of a tile of rows of a head.
inline ulong tile_at(constant ThreePass& args, uint head, uint tile) {
    const uint tiles = (args.rows + ROWS - 1) / ROWS;
    return (ulong(head) * tiles + tile) * ROWS * args.cells;
}

/// Scores of 32 rows and 64 cells, those that a row does not see too.
template <typename Cells>
kernel void three_pass_scores(constant ThreePass& args [[buffer(0)]],
                              device float* scores [[buffer(1)]],
                              device const float* q [[buffer(2)]],
                              device const uchar* keys [[buffer(3)]],
                              device const int* positions [[buffer(4)]],
                              uint3 place [[threadgroup_position_in_grid]],
                              uint thread_index [[thread_index_in_threadgroup]],
                              uint lane [[thread_index_in_simdgroup]],
                              uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    threadgroup float4 memory[(CELLS + ROWS) * STRIDE / 4];
    threadgroup float* key_tile = (threadgroup float*)memory;
    threadgroup float* query_tile = key_tile + CELLS * STRIDE;
    const uint first_cell = place.x * CELLS, first_row = place.y * ROWS;
    const uint most = most_cells(positions, first_row, args.rows, lane);
    const bool is_seen = first_cell < most;
    const uint head = args.first_head + place.z;

    // What the thread copies: half a step of a cell, a quarter of a step of a row.
    const uint cell = first_cell + thread_index / 2, row = first_row + thread_index / 4;
    const uint half_step = thread_index % 2 * STEP / 2, quarter = thread_index % 4;
    const uint part = head / args.group * Cells::bytes(head_dim);
    device const uchar* key = Heads{keys + part, args.cell_bytes}.of(cell < most ? cell : 0);
    q += (row < args.rows ? row : 0) * ulong(args.q_stride) + head * head_dim;

    // What the simdgroup computes.
    const uint own_cell = simdgroup % 2 * SIMDGROUP_OUTPUTS, own_row = simdgroup / 2 * SIMDGROUP_ROWS;
    Sums sums;
    clear(sums);
    for (uint first = 0; is_seen && first < head_dim; first += STEP) {
#pragma clang loop unroll(full)
        for (uint v = 0; v < 4; v++) {
            const uint i = half_step + 4 * v;
            const float4 features = cell < most ? Cells::four_at(key, first + i) : float4(0.0f);
            *(threadgroup float4*)(key_tile + thread_index / 2 * STRIDE + i) = features;
        }
#pragma clang loop unroll(full)
        for (uint v = 0; v < 8; v++) {
            const uint i = 8 * quarter + v;
            query_tile[thread_index / 4 * STRIDE + i] = row < args.rows ? q[first + i] * args.scale : 0.0f;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        add_products(sums, query_tile + own_row * STRIDE, key_tile + own_cell * STRIDE);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (is_seen) {
        scores += tile_at(args, place.z, place.y) + ulong(own_row) * args.cells + first_cell + own_cell;
        store_all(sums, scores, args.cells);
    }
}

/// Scores of a row's head to weights; zeros for cells that only other rows of the tile see. A simdgroup each.
kernel void three_pass_weights(constant ThreePass& args [[buffer(0)]],
                               device float* scores [[buffer(1)]],
                               device const int* positions [[buffer(2)]],
                               uint2 place [[threadgroup_position_in_grid]],
                               uint lane [[thread_index_in_simdgroup]]) {
    const uint row = place.y;
    const uint cells = uint(positions[row]) + 1;
    const uint most = most_cells(positions, row / ROWS * ROWS, args.rows, lane);
    scores += tile_at(args, place.x, row / ROWS) + ulong(row % ROWS) * args.cells;
    float largest = -INFINITY;
    for (uint cell = lane; cell < cells; cell += 32) {
        largest = max(largest, scores[cell]);
    }
    largest = simd_max(largest);
    float sum = 0.0f;
    for (uint cell = lane; cell < cells; cell += 32) {
        sum += exp(scores[cell] - largest);
    }
    sum = simd_sum(sum);
    // Outputs are summed in whole steps.
    for (uint cell = lane; cell < (most + STEP - 1) / STEP * STEP; cell += 32) {
        scores[cell] = cell < cells ? exp(scores[cell] - largest) / sum : 0.0f;
    }
}

/// Adds the products of a step. `weights` are the simdgroup's rows, `values` its features in the tile.
inline void add_values(thread Sums& sums, device const float* weights, uint stride, threadgroup const float* values) {
#pragma clang loop unroll(full)
    for (uint k = 0; k < STEP; k += 8) {
        simdgroup_float8x8 ws[SIMDGROUP_ROWS / 8], vs[SIMDGROUP_OUTPUTS / 8];
#pragma clang loop unroll(full)
        for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
            simdgroup_load(ws[r], weights + ulong(8 * r) * stride + k, stride);
        }
#pragma clang loop unroll(full)
        for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
            simdgroup_load(vs[o], values + k * VALUE_STRIDE + 8 * o, VALUE_STRIDE);
        }
#pragma clang loop unroll(full)
        for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
#pragma clang loop unroll(full)
            for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
                simdgroup_multiply_accumulate(sums.at[r][o], ws[r], vs[o], sums.at[r][o]);
            }
        }
    }
}

/// Four features of a value; zeros, and its cell as the first bad one, if they are not finite. A weight of 0 would not
/// keep them out.
template <typename Cells>
float4 finite_at(Heads values, uint cell, uint first, thread uint& bad) {
    const float4 features = Cells::four_at(values.of(cell), first);
    if (all(isfinite(features))) {
        return features;
    }
    bad = min(bad, cell);
    return float4(0.0f);
}

/// Stores `rows` rows by way of the simdgroup's own memory; NaN for those that see the first bad cell.
inline void store_outputs(thread const Sums& sums, device float* y, uint stride, uint rows,
                          device const int* positions, uint bad, threadgroup float* own, uint lane) {
#pragma clang loop unroll(full)
    for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
#pragma clang loop unroll(full)
        for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
            simdgroup_store(sums.at[r][o], own + 8 * r * STRIDE + 8 * o, STRIDE);
        }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint r = 0; r < rows; r++) {
        // The sign of a zero may come from cells that weigh nothing: adding 0 makes it positive.
        y[ulong(r) * stride + lane] = uint(positions[r]) < bad ? own[r * STRIDE + lane] + 0.0f : NAN;
    }
}

/// Outputs of 32 rows and 64 features from the weights.
template <typename Cells>
kernel void three_pass_outputs(constant ThreePass& args [[buffer(0)]],
                               device float* y [[buffer(1)]],
                               device const float* weights [[buffer(2)]],
                               device const uchar* values [[buffer(3)]],
                               device const int* positions [[buffer(4)]],
                               uint3 place [[threadgroup_position_in_grid]],
                               uint thread_index [[thread_index_in_threadgroup]],
                               uint lane [[thread_index_in_simdgroup]],
                               uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    threadgroup float4 memory[STEP * VALUE_STRIDE / 4];
    threadgroup uint bad_cells[SIMDGROUPS];
    threadgroup float* tile = (threadgroup float*)memory;
    const uint first_feature = place.x * FEATURES, first_row = place.y * ROWS;
    const uint most = most_cells(positions, first_row, args.rows, lane);
    const uint head = args.first_head + place.z;
    const uint part = head / args.group * Cells::bytes(head_dim);
    const Heads of_head = Heads{values + part, args.cell_bytes};

    // What the simdgroup computes, as far as there are rows.
    const uint feature = simdgroup % 2 * SIMDGROUP_OUTPUTS, row = simdgroup / 2 * SIMDGROUP_ROWS;
    const uint rows = min(SIMDGROUP_ROWS, args.rows - min(first_row + row, args.rows));
    weights += tile_at(args, place.z, place.y) + ulong(row) * args.cells;
    Sums sums;
    clear(sums);
    uint bad = UINT_MAX;
    for (uint first = 0; first < most; first += STEP) {
        // A thread copies a quarter of a cell's features.
        const uint own = thread_index / 4;
#pragma clang loop unroll(full)
        for (uint v = 0; v < 4; v++) {
            const uint i = 16 * v + thread_index % 4 * 4;
            float4 features = float4(0.0f);
            if (first + own < most) {
                features = finite_at<Cells>(of_head, first + own, first_feature + i, bad);
            }
            *(threadgroup float4*)(tile + own * VALUE_STRIDE + i) = features;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        add_values(sums, weights + first, args.cells, tile + feature);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    bad = simd_min(bad);
    if (lane == 0) {
        bad_cells[simdgroup] = bad;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
    for (uint s = 0; s < SIMDGROUPS; s++) {
        bad = min(bad, bad_cells[s]);
    }
    y += ulong(first_row + row) * args.y_stride + head * head_dim + first_feature + feature;
    threadgroup float* own = tile + simdgroup * SIMDGROUP_ROWS * STRIDE;
    store_outputs(sums, y, args.y_stride, rows, positions + first_row + row, bad, own, lane);
}

typedef decltype(three_pass_scores<KvF32>) three_pass_scores_kernel;
template [[host_name("three_pass_scores_f32")]] kernel three_pass_scores_kernel three_pass_scores<KvF32>;
template [[host_name("three_pass_scores_f16")]] kernel three_pass_scores_kernel three_pass_scores<KvF16>;
template [[host_name("three_pass_scores_q8_0")]] kernel three_pass_scores_kernel three_pass_scores<KvQ8_0>;

typedef decltype(three_pass_outputs<KvF32>) three_pass_outputs_kernel;
template [[host_name("three_pass_outputs_f32")]] kernel three_pass_outputs_kernel three_pass_outputs<KvF32>;
template [[host_name("three_pass_outputs_f16")]] kernel three_pass_outputs_kernel three_pass_outputs<KvF16>;
template [[host_name("three_pass_outputs_q8_0")]] kernel three_pass_outputs_kernel three_pass_outputs<KvQ8_0>;
