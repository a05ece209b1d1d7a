// Sums of products by simdgroup matrices: four simdgroups share a tile of 32 rows and 64 columns.
//
// An element's sum runs over fragments of 8 in the order of its row, whatever stands beside it.
#pragma once

/// Rows and columns of the tile that a simdgroup has: a quarter.
constant constexpr uint SIMDGROUP_ROWS = 16, SIMDGROUP_OUTPUTS = 32;
/// Elements of a sum that are in threadgroup memory at a time.
constant constexpr uint STEP = 32;
/// Elements between rows of tiles: the rows of a fragment lie in different banks, where there are 32 of 4 bytes.
constant constexpr uint STRIDE = STEP + 4;

/// A simdgroup's fragments of 8 rows and 8 outputs.
struct Sums {
    metal::simdgroup_float8x8 at[SIMDGROUP_ROWS / 8][SIMDGROUP_OUTPUTS / 8];
};

inline void clear(thread Sums& sums) {
#pragma clang loop unroll(full)
    for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
#pragma clang loop unroll(full)
        for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
            sums.at[r][o] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
    }
}

/// Adds the products of a step. `x` and `weight` are the simdgroup's rows and outputs in the tiles.
inline void add_products(thread Sums& sums, threadgroup const float* x, threadgroup const float* weight) {
#pragma clang loop unroll(full)
    for (uint k = 0; k < STEP; k += 8) {
        metal::simdgroup_float8x8 xs[SIMDGROUP_ROWS / 8], ws[SIMDGROUP_OUTPUTS / 8];
#pragma clang loop unroll(full)
        for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
            metal::simdgroup_load(xs[r], x + 8 * r * STRIDE + k, STRIDE);
        }
#pragma clang loop unroll(full)
        for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
            metal::simdgroup_load(ws[o], weight + 8 * o * STRIDE + k, STRIDE, ulong2(0), true);
        }
#pragma clang loop unroll(full)
        for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
#pragma clang loop unroll(full)
            for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
                metal::simdgroup_multiply_accumulate(sums.at[r][o], xs[r], ws[o], sums.at[r][o]);
            }
        }
    }
}

inline void store_all(thread const Sums& sums, device float* y, uint stride) {
#pragma clang loop unroll(full)
    for (uint r = 0; r < SIMDGROUP_ROWS / 8; r++) {
#pragma clang loop unroll(full)
        for (uint o = 0; o < SIMDGROUP_OUTPUTS / 8; o++) {
            metal::simdgroup_store(sums.at[r][o], y + ulong(8 * r) * stride + 8 * o, stride);
        }
    }
}
