// Heads of a KV cell, by the format of its region: `head` is the first byte of a head, `first` a feature. A head's
// neighbours follow, so that a whole cell is a head as well.
//
// A cell starts at a multiple of 4 bytes. With heads of whole vectors, so does a vector of it at a multiple of
// its size, except in `KvQ8_0`, whose blocks are only aligned to 2 bytes.
#pragma once

/// The same head of all cells of a region.
struct Heads {
    device const uchar* first;
    uint cell_bytes;

    device const uchar* of(uint cell) const { return first + ulong(cell) * cell_bytes; }
};

struct KvF32 {
    static uint bytes(uint features) { return 4 * features; }
    static float at(device const uchar* head, uint first) {
        return ((device const float*)head)[first];
    }
    static float4 four_at(device const uchar* head, uint first) {
        return *(device const float4*)(head + 4 * first);
    }
    static void put(device uchar* head, uint feature, float value) { ((device float*)head)[feature] = value; }
};

struct KvF16 {
    static uint bytes(uint features) { return 2 * features; }
    static float at(device const uchar* head, uint first) {
        return float(((device const half*)head)[first]);
    }
    static float4 four_at(device const uchar* head, uint first) {
        return float4(*(device const half4*)(head + 2 * first));
    }
    static void put(device uchar* head, uint feature, float value) { ((device half*)head)[feature] = half(value); }
};

/// Blocks of 32 levels after their f16 scale. Heads are whole blocks.
struct KvQ8_0 {
    static uint bytes(uint features) { return features / 32 * 34; }
    static float at(device const uchar* head, uint first) {
        device const uchar* block = head + first / 32 * 34;
        return float(*(device const half*)block) * float(((device const char*)block)[2 + first % 32]);
    }
    static float4 four_at(device const uchar* head, uint first) {
        device const uchar* block = head + first / 32 * 34;
        const ushort2 levels = *(device const packed_ushort2*)(block + 2 + first % 32);
        return float(*(device const half*)block) * float4(as_type<char4>(levels));
    }
    /// Stores a block, one element per lane. Correct quotients give the CPU's bytes, except that a GPU may take numbers
    /// below 2^-126 for 0: levels of so small a scale differ, and the scale is 0 in f16.
    static void put_block(device uchar* block, uint lane, float value) {
        // Magnitudes compare like their bits, with NaN above infinity: a NaN is never lost.
        const float largest = as_type<float>(metal::simd_max(as_type<uint>(value) & 0x7fffffff));
        const float scale = metal::precise::divide(largest, 127.0f);
        const float inverse = scale == 0.0f ? 0.0f : metal::precise::divide(1.0f, scale);
        if (lane == 0) {
            *(device half*)block = half(scale);
        }
        // In bounds already, unless the scale is too small for an inverse or the value is not finite.
        const float level = metal::clamp(metal::round(value * inverse), -128.0f, 127.0f);
        block[2 + lane] = uchar(char(level));
    }
};
