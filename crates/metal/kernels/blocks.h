// Weight types of GGUF files: the value of one element of a block.
//
// Layouts as in `crates/gguf/src/quantize`. Blocks are only aligned to 2 bytes, so fields of 4 bytes are read
// byte by byte.
#pragma once

struct F32 {
    static constant constexpr uint elements = 1;
    static constant constexpr uint bytes = 4;
    static float at(device const uchar* block, uint) { return *(device const float*)block; }
};

struct F16 {
    static constant constexpr uint elements = 1;
    static constant constexpr uint bytes = 2;
    static float at(device const uchar* block, uint) { return float(*(device const half*)block); }
};

struct BF16 {
    static constant constexpr uint elements = 1;
    static constant constexpr uint bytes = 2;
    static float at(device const uchar* block, uint) {
        return as_type<float>(uint(*(device const ushort*)block) << 16);
    }
};

/// A scale or minimum of a block, f16 at a byte offset.
inline float half_at(device const uchar* block, uint offset) {
    return float(*(device const half*)(block + offset));
}

/// The low nibbles of 16 bytes, then the high ones.
inline uint nibble_of_32(device const uchar* quants, uint i) {
    const uint byte = quants[i % 16];
    return i < 16 ? byte & 15 : byte >> 4;
}

/// Bit `i` of 32, in four bytes.
inline uint bit_of_32(device const uchar* bits, uint i) { return uint(bits[i / 8]) >> (i % 8) & 1; }

struct Q4_0 {
    static constant constexpr uint elements = 32;
    static constant constexpr uint bytes = 18;
    static float at(device const uchar* block, uint i) {
        return half_at(block, 0) * float(int(nibble_of_32(block + 2, i)) - 8);
    }
};

struct Q4_1 {
    static constant constexpr uint elements = 32;
    static constant constexpr uint bytes = 20;
    static float at(device const uchar* block, uint i) {
        return half_at(block, 0) * float(nibble_of_32(block + 4, i)) + half_at(block, 2);
    }
};

struct Q5_0 {
    static constant constexpr uint elements = 32;
    static constant constexpr uint bytes = 22;
    static float at(device const uchar* block, uint i) {
        const uint q = nibble_of_32(block + 6, i) | bit_of_32(block + 2, i) << 4;
        return half_at(block, 0) * float(int(q) - 16);
    }
};

struct Q5_1 {
    static constant constexpr uint elements = 32;
    static constant constexpr uint bytes = 24;
    static float at(device const uchar* block, uint i) {
        const uint q = nibble_of_32(block + 8, i) | bit_of_32(block + 4, i) << 4;
        return half_at(block, 0) * float(q) + half_at(block, 2);
    }
};

struct Q8_0 {
    static constant constexpr uint elements = 32;
    static constant constexpr uint bytes = 34;
    static float at(device const uchar* block, uint i) {
        return half_at(block, 0) * float(((device const char*)block)[2 + i]);
    }
};

/// Scale and minimum of a group of 32 in a Q4_K or Q5_K block, 6 bits each in the 12 bytes from 4 on.
inline float2 scale_and_min(device const uchar* block, uint group) {
    device const uchar* packed = block + 4;
    uint scale, minimum;
    if (group < 4) {
        scale = packed[group] & 63;
        minimum = packed[group + 4] & 63;
    } else {
        scale = (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
        minimum = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    }
    return float2(half_at(block, 0) * float(scale), half_at(block, 2) * float(minimum));
}

/// Nibble of a group of 32: groups share 32 bytes in pairs, the even one has the low nibbles.
inline uint nibble_of_256(device const uchar* quants, uint i) {
    const uint byte = quants[i / 64 * 32 + i % 32];
    return i / 32 % 2 == 0 ? byte & 15 : byte >> 4;
}

struct Q4_K {
    static constant constexpr uint elements = 256;
    static constant constexpr uint bytes = 144;
    static float at(device const uchar* block, uint i) {
        const float2 scale = scale_and_min(block, i / 32);
        return scale.x * float(nibble_of_256(block + 16, i)) - scale.y;
    }
};

struct Q5_K {
    static constant constexpr uint elements = 256;
    static constant constexpr uint bytes = 176;
    static float at(device const uchar* block, uint i) {
        const float2 scale = scale_and_min(block, i / 32);
        const uint high = uint(block[16 + i % 32]) >> (i / 32) & 1;
        return scale.x * float(nibble_of_256(block + 48, i) | high << 4) - scale.y;
    }
};

struct Q6_K {
    static constant constexpr uint elements = 256;
    static constant constexpr uint bytes = 210;
    static float at(device const uchar* block, uint i) {
        // Halves of 128: two times 32 low nibbles, then their high ones; pairs of bits on top.
        const uint part = i / 128, quarter = i / 32 % 4, k = i % 32;
        const uint low = block[64 * part + 32 * (quarter % 2) + k];
        const uint high = uint(block[128 + 32 * part + k]) >> (2 * quarter) & 3;
        const uint q = (quarter < 2 ? low & 15 : low >> 4) | high << 4;
        const float scale = half_at(block, 208) * float(((device const char*)block)[192 + i / 16]);
        return scale * float(int(q) - 32);
    }
};
