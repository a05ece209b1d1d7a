// Weight types of GGUF files, as the lanes of a simdgroup read them.
//
// `lanes` lanes share a block of `elements` values. The part of a lane is `vectors` vectors of four elements;
// vector `v` of part `p` starts at `element(p, v)`. `read` decodes a part: a value is `scale * level`, or
// `scale * level + offset` where the type has offsets; `groups` equal runs of vectors have a scale each.
// `left` counts the elements from the block to the end of the row: only rows of floats can end within one.
//
// Layouts as in `crates/gguf/src/quantize`. A weight starts at a multiple of 16 bytes, so a block is as aligned
// as its size lets it be: 16 bytes for Q4_K and Q5_K, 8 for Q5_1, 4 for Q4_1, 2 for the others. Loads are as wide
// as that allows, packed vectors where the alignment is that of their elements. Levels are unsigned where
// possible: an offset costs one product per group, a subtraction would be one per element. Loops are unrolled, so
// that arrays are registers.
#pragma once

#include "vectors.h"

/// A part of a block in registers.
template <uint Vectors, uint Groups> struct Levels {
    float4 level[Vectors];
    float scale[Groups];
    float offset[Groups];
};

/// Floats: a vector is a lane's own.
struct Floats {
    static constant constexpr uint elements = 4, lanes = 1, vectors = 1, groups = 1;
    static constant constexpr bool has_offset = false;
    typedef Levels<vectors, groups> Part;

    static uint element(uint, uint) { return 0; }

    static Part decode(float4 values) {
        Part w;
        w.level[0] = values;
        w.scale[0] = 1.0f;
        return w;
    }
};

struct F32 {
    typedef Floats Split;
    static constant constexpr uint bytes = 16;
    static Split::Part read(device const uchar* block, uint, uint left) {
        return Split::decode(vector_at<float4, packed_float4>((device const float*)block, left));
    }
};

struct F16 {
    typedef Floats Split;
    static constant constexpr uint bytes = 8;
    static Split::Part read(device const uchar* block, uint, uint left) {
        return Split::decode(float4(vector_at<half4, packed_half4>((device const half*)block, left)));
    }
};

struct BF16 {
    typedef Floats Split;
    static constant constexpr uint bytes = 8;
    static Split::Part read(device const uchar* block, uint, uint left) {
        const ushort4 high = vector_at<ushort4, packed_ushort4>((device const ushort*)block, left);
        return Split::decode(as_type<float4>(uint4(high) << 16));
    }
};

/// Four bytes at an even address.
inline uint word_at(device const uchar* at) {
    return as_type<uint>(ushort2(*(device const packed_ushort2*)at));
}

/// Eight bytes at an even address.
inline uint2 words_at(device const uchar* at) {
    return as_type<uint2>(ushort4(*(device const packed_ushort4*)at));
}

/// A scale or minimum of a block, an f16 at an even address.
inline float half_at(device const uchar* at) { return float(*(device const half*)at); }

inline float4 bytes_of(uint word) { return float4(as_type<uchar4>(word)); }

/// Blocks of 32 levels of 4 or 5 bits: 16 bytes hold the low bits of elements 0 to 15 in their low nibbles, those of
/// 16 to 31 in their high ones. A lane has eight of the bytes.
struct Nibbles {
    static constant constexpr uint elements = 32, lanes = 2, vectors = 4, groups = 1;
    static constant constexpr bool has_offset = true;
    typedef Levels<vectors, groups> Part;

    static uint element(uint part, uint v) { return 8 * part + 16 * (v / 2) + 4 * (v % 2); }

    static Part decode(uint2 nibbles, float scale, float offset) {
        Part w;
        const uint2 low = nibbles & 0x0f0f0f0fu, high = nibbles >> 4 & 0x0f0f0f0fu;
        w.level[0] = bytes_of(low.x);
        w.level[1] = bytes_of(low.y);
        w.level[2] = bytes_of(high.x);
        w.level[3] = bytes_of(high.y);
        w.scale[0] = scale;
        w.offset[0] = offset;
        return w;
    }

    /// The same with the fifth bits of the block's 32 elements.
    static Part decode(uint2 nibbles, uint fifth, uint part, float scale, float offset) {
        Part w = decode(nibbles, scale, offset);
        fifth >>= 8 * part;
#pragma clang loop unroll(full)
        for (uint v = 0; v < vectors; v++) {
            // The product puts bit i of four at the start of byte i.
            const uint bits = fifth >> (16 * (v / 2) + 4 * (v % 2)) & 15;
            w.level[v] += 16.0f * bytes_of(bits * 0x00204081u & 0x01010101u);
        }
        return w;
    }
};

struct Q4_0 {
    typedef Nibbles Split;
    static constant constexpr uint bytes = 18;
    static Split::Part read(device const uchar* block, uint part, uint) {
        const float scale = half_at(block);
        return Split::decode(words_at(block + 2 + 8 * part), scale, -8.0f * scale);
    }
};

struct Q4_1 {
    typedef Nibbles Split;
    static constant constexpr uint bytes = 20;
    static Split::Part read(device const uchar* block, uint part, uint) {
        const half2 scale = *(device const half2*)block;
        device const uint* quants = (device const uint*)block + 1 + 2 * part;
        const uint2 nibbles = uint2(*(device const packed_uint2*)quants);
        return Split::decode(nibbles, float(scale.x), float(scale.y));
    }
};

struct Q5_0 {
    typedef Nibbles Split;
    static constant constexpr uint bytes = 22;
    static Split::Part read(device const uchar* block, uint part, uint) {
        const ushort3 head = ushort3(*(device const packed_ushort3*)block);
        const float scale = float(as_type<half>(head.x));
        const uint fifth = as_type<uint>(ushort2(head.yz));
        return Split::decode(words_at(block + 6 + 8 * part), fifth, part, scale, -16.0f * scale);
    }
};

struct Q5_1 {
    typedef Nibbles Split;
    static constant constexpr uint bytes = 24;
    static Split::Part read(device const uchar* block, uint part, uint) {
        device const uint2* words = (device const uint2*)block;
        const uint2 head = words[0];
        const float2 scale = float2(as_type<half2>(head.x));
        return Split::decode(words[1 + part], head.y, part, scale.x, scale.y);
    }
};

struct Q8_0 {
    typedef Q8_0 Split;
    static constant constexpr uint elements = 32, lanes = 4, vectors = 2, groups = 1, bytes = 34;
    static constant constexpr bool has_offset = false;
    typedef Levels<vectors, groups> Part;

    static uint element(uint part, uint v) { return 8 * part + 4 * v; }

    static Part read(device const uchar* block, uint part, uint) {
        Part w;
        const uint2 quants = words_at(block + 2 + 8 * part);
        w.level[0] = float4(as_type<char4>(quants.x));
        w.level[1] = float4(as_type<char4>(quants.y));
        w.scale[0] = half_at(block);
        return w;
    }
};

/// Super-blocks of eight groups of 32 levels of 4 or 5 bits. Two groups share 32 bytes, of which the even one has the
/// low nibbles. Scales and minima have 6 bits each: those of groups 4 to 7 keep their upper two in the bytes of
/// groups 0 to 3. So a lane takes eight elements of groups 2i, 2i + 1, 2i + 4 and 2i + 5, with i = `part / 4`.
struct Groups32 {
    static constant constexpr uint elements = 256, lanes = 8, vectors = 8, groups = 4;
    static constant constexpr bool has_offset = true;
    typedef Levels<vectors, groups> Part;

    static uint element(uint part, uint v) {
        return 64 * (part / 4) + 128 * (v / 4) + 32 * (v / 2 % 2) + 8 * (part % 4) + 4 * (v % 2);
    }

    /// Scales and minima of groups 2i, 2i + 1, 2i + 4 and 2i + 5, as the bytes of a word each. `head` is the block's
    /// first 16 bytes.
    static uint2 unpack(uint4 head, uint i) {
        const uint3 packed = head.yzw >> (16 * i);
        const uint2 low = packed.xy & 0x3f3fu;
        const uint2 high = (uint2(packed.z, packed.z >> 4) & 0x0f0fu) | (packed.xy >> 2 & 0x3030u);
        return low | high << 16;
    }

    /// Levels of 4 bits. `quants` are the 128 bytes of nibbles; the first 16 of the block are scales.
    static Part read_nibbles(device const uchar* block, device const uchar* quants, uint part) {
        Part w;
        const uint4 head = *(device const uint4*)block;
        const uint2 unpacked = unpack(head, part / 4);
        const float2 scale = float2(as_type<half2>(head.x));
        const float4 scales = scale.x * bytes_of(unpacked.x);
        const float4 offsets = -scale.y * bytes_of(unpacked.y);
#pragma clang loop unroll(full)
        for (uint g = 0; g < groups; g++) {
            w.scale[g] = scales[g];
            w.offset[g] = offsets[g];
        }
        device const uint2* bytes = (device const uint2*)(quants + 32 * (part / 4) + 8 * (part % 4));
#pragma clang loop unroll(full)
        for (uint i = 0; i < 2; i++) {
            const uint2 nibbles = bytes[8 * i];
            w.level[4 * i] = bytes_of(nibbles.x & 0x0f0f0f0fu);
            w.level[4 * i + 1] = bytes_of(nibbles.y & 0x0f0f0f0fu);
            w.level[4 * i + 2] = bytes_of(nibbles.x >> 4 & 0x0f0f0f0fu);
            w.level[4 * i + 3] = bytes_of(nibbles.y >> 4 & 0x0f0f0f0fu);
        }
        return w;
    }
};

struct Q4_K {
    typedef Groups32 Split;
    static constant constexpr uint bytes = 144, quants = 16;
    static constant constexpr bool has_fifth = false;
    static Split::Part read(device const uchar* block, uint part, uint) {
        return Split::read_nibbles(block, block + quants, part);
    }
};

struct Q5_K {
    typedef Groups32 Split;
    static constant constexpr uint bytes = 176, quants = 48;
    static constant constexpr bool has_fifth = true;
    /// Bit `g` of 32 bytes is the fifth of group `g`.
    static Split::Part read(device const uchar* block, uint part, uint) {
        Split::Part w = Split::read_nibbles(block, block + quants, part);
        const uint2 fifth = *(device const uint2*)(block + 16 + 8 * (part % 4)) >> (2 * (part / 4));
#pragma clang loop unroll(full)
        for (uint g = 0; g < Split::groups; g++) {
            const uint2 bits = fifth >> (g % 2 + 4 * (g / 2)) & 0x01010101u;
            w.level[2 * g] += 16.0f * bytes_of(bits.x);
            w.level[2 * g + 1] += 16.0f * bytes_of(bits.y);
        }
        return w;
    }
};

/// Halves of 128 elements: 64 bytes hold the low four bits of quarters 0 and 1 in their low nibbles, those of 2 and
/// 3 in their high ones; 32 bytes hold two bits of each quarter on top. A scale is for 16 elements. A lane takes
/// four elements of every quarter.
struct Q6_K {
    typedef Q6_K Split;
    static constant constexpr uint elements = 256, lanes = 16, vectors = 4, groups = 4, bytes = 210;
    static constant constexpr bool has_offset = true;
    typedef Levels<vectors, groups> Part;

    static uint element(uint part, uint v) { return 128 * (part / 8) + 32 * v + 4 * (part % 8); }

    static Part read(device const uchar* block, uint part, uint) {
        Part w;
        const uint half_block = part / 8, k = 4 * (part % 8);
        const uint2 low = uint2(word_at(block + 64 * half_block + k), word_at(block + 64 * half_block + 32 + k));
        const uint high = word_at(block + 128 + 32 * half_block + k);
        const uint2 packed = words_at(block + 192 + 8 * half_block) >> (8 * (k / 16));
        const char4 scales = as_type<char4>((packed.x & 0x00ff00ffu) | (packed.y & 0x00ff00ffu) << 8);
        const float scale = half_at(block + 208);
        const float4 quarters = scale * float4(scales.xzyw);
#pragma clang loop unroll(full)
        for (uint v = 0; v < vectors; v++) {
            const uint nibbles = low[v % 2] >> (4 * (v / 2)) & 0x0f0f0f0fu;
            w.level[v] = bytes_of(nibbles | (high >> (2 * v) & 0x03030303u) << 4);
            w.scale[v] = quarters[v];
            w.offset[v] = -32.0f * quarters[v];
        }
        return w;
    }
};

inline float sum_of(float4 a) { return (a.x + a.y) + (a.z + a.w); }

/// Values of a vector of a part.
template <typename Split>
inline float4 values(thread const typename Split::Part& w, uint v) {
    const uint g = v / (Split::vectors / Split::groups);
    const float4 scaled = w.scale[g] * w.level[v];
    return Split::has_offset ? scaled + w.offset[g] : scaled;
}

/// Dot product of a part and the vectors of `x` at its elements.
template <typename Split>
inline float dot_part(thread const typename Split::Part& w, thread const float4* x) {
    constexpr uint per_group = Split::vectors / Split::groups;
    float sum = 0.0f;
#pragma clang loop unroll(full)
    for (uint g = 0; g < Split::groups; g++) {
        float4 products = 0.0f, total = 0.0f;
#pragma clang loop unroll(full)
        for (uint v = g * per_group; v < (g + 1) * per_group; v++) {
            products += w.level[v] * x[v];
            total += x[v];
        }
        sum += w.scale[g] * sum_of(products);
        if (Split::has_offset) {
            sum += w.offset[g] * sum_of(total);
        }
    }
    return sum;
}
