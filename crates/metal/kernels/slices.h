// Weight types of GGUF files, as the threads of a tile read them.
//
// A tile goes along its rows 32 elements a step. Two threads share a row: `half_step` is 0 or 1, and each has four
// vectors of four elements of a step; vector `v` starts at element `element(half_step, v)` of it. `read` takes what a
// thread needs of `steps` steps, so that bytes with levels of several steps are read once. `left` counts the elements
// from the first step to the end of the row: only rows of floats can end within one.
#pragma once

#include "blocks.h"

/// A step is a block of 32 elements, split as among lanes.
template <typename Block, typename Split = typename Block::Split> struct Slice {
    static constant constexpr uint steps = 1, parts = Split::lanes / 2;
    typename Split::Part part[parts];

    static uint element(uint half_step, uint v) {
        return Split::element(parts * half_step + v / Split::vectors, v % Split::vectors);
    }

    void read(device const uchar* row, uint at, uint half_step, uint left) {
        device const uchar* block = row + ulong(at / Split::elements) * Block::bytes;
#pragma clang loop unroll(full)
        for (uint p = 0; p < parts; p++) {
            part[p] = Block::read(block, parts * half_step + p, left);
        }
    }

    float4 vector(uint, uint v) const {
        const typename Split::Part w = part[v / Split::vectors];
        return values<Split>(w, v % Split::vectors);
    }
};

/// Floats: two threads read neighbouring vectors.
template <typename Block> struct Slice<Block, Floats> {
    static constant constexpr uint steps = 1;
    float4 vectors[4];

    static uint element(uint half_step, uint v) { return 8 * v + 4 * half_step; }

    void read(device const uchar* row, uint at, uint half_step, uint left) {
#pragma clang loop unroll(full)
        for (uint v = 0; v < 4; v++) {
            const uint i = element(half_step, v);
            if (i < left) {
                device const uchar* block = row + ulong((at + i) / Floats::elements) * Block::bytes;
                vectors[v] = Block::read(block, 0, left - i).level[0];
            }
        }
    }

    float4 vector(uint, uint v) const { return vectors[v]; }
};

/// Four levels that are bytes. Rounded once: where a minimum cancels them, the product alone would lose bits.
inline float4 byte_values(uint levels, float scale, float offset) {
    return metal::fma(float4(scale), bytes_of(levels), float4(offset));
}

/// Two groups that share bytes: Q4_K and Q5_K.
template <typename Block> struct Slice<Block, Groups32> {
    static constant constexpr uint steps = 2;
    uint4 level[steps];
    float scale[steps];
    float offset[steps];

    static uint element(uint half_step, uint v) { return 16 * half_step + 4 * v; }

    void read(device const uchar* row, uint at, uint half_step, uint) {
        device const uchar* block = row + ulong(at / Groups32::elements) * Block::bytes;
        const uint pair = at / 64 % 4;
        const uint4 head = *(device const uint4*)block;
        const uint2 unpacked = Groups32::unpack(head, pair % 2) >> (16 * (pair / 2));
        const float2 factors = float2(as_type<half2>(head.x));
        const uint4 nibbles = *(device const uint4*)(block + Block::quants + 32 * pair + 16 * half_step);
        uint4 fifth = 0;
        if (Block::has_fifth) {
            fifth = *(device const uint4*)(block + 16 + 16 * half_step) >> (2 * pair);
        }
#pragma clang loop unroll(full)
        for (uint s = 0; s < steps; s++) {
            const uint2 six = unpacked >> (8 * s) & 0xffu;
            level[s] = (nibbles >> (4 * s) & 0x0f0f0f0fu) | (fifth >> s & 0x01010101u) << 4;
            scale[s] = factors.x * float(six.x);
            offset[s] = -factors.y * float(six.y);
        }
    }

    float4 vector(uint s, uint v) const { return byte_values(level[s][v], scale[s], offset[s]); }
};

/// Sixteen bytes at an even address.
inline uint4 quad_words_at(device const uchar* at) { return uint4(words_at(at), words_at(at + 8)); }

/// Half a block: with the lanes' split a thread would read the scale twice.
template <> struct Slice<Q8_0, Q8_0> {
    static constant constexpr uint steps = 1;
    uint4 level;
    float scale;

    static uint element(uint half_step, uint v) { return 16 * half_step + 4 * v; }

    void read(device const uchar* row, uint at, uint half_step, uint) {
        device const uchar* block = row + ulong(at / Q8_0::elements) * Q8_0::bytes;
        level = quad_words_at(block + 2 + 16 * half_step);
        scale = half_at(block);
    }

    float4 vector(uint, uint v) const { return scale * float4(as_type<char4>(level[v])); }
};

/// The four quarters of half a super-block.
template <> struct Slice<Q6_K, Q6_K> {
    static constant constexpr uint steps = 4;
    uint4 level[steps];
    float scale[steps];

    static uint element(uint half_step, uint v) { return 16 * half_step + 4 * v; }

    void read(device const uchar* row, uint at, uint half_step, uint) {
        device const uchar* block = row + ulong(at / Q6_K::elements) * Q6_K::bytes;
        const uint half_block = at / 128 % 2;
        device const uchar* nibbles = block + 64 * half_block + 16 * half_step;
        const uint4 low[2] = {quad_words_at(nibbles), quad_words_at(nibbles + 32)};
        const uint4 high = quad_words_at(block + 128 + 32 * half_block + 16 * half_step);
        const uint2 packed = words_at(block + 192 + 8 * half_block) >> (8 * half_step);
        const float factor = half_at(block + 208);
#pragma clang loop unroll(full)
        for (uint s = 0; s < steps; s++) {
            level[s] = (low[s % 2] >> (4 * (s / 2)) & 0x0f0f0f0fu) | (high >> (2 * s) & 0x03030303u) << 4;
            scale[s] = factor * float(as_type<char4>(packed[s / 2])[s % 2 * 2]);
        }
    }

    float4 vector(uint s, uint v) const { return byte_values(level[s][v], scale[s], -32.0f * scale[s]); }
};
