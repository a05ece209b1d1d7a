// The names of <simd/simd.h>, which sources shared with the host include.
#pragma once
#include <metal_stdlib>

#define SOFTMETAL_SIMD_NAMES(T)                                                                    \
    typedef metal::T##2 simd_##T##2, vector_##T##2;                                                \
    typedef metal::T##3 simd_##T##3, vector_##T##3;                                                \
    typedef metal::T##4 simd_##T##4, vector_##T##4;                                                \
    namespace simd {                                                                               \
    using metal::T##2;                                                                             \
    using metal::T##3;                                                                             \
    using metal::T##4;                                                                             \
    }
SOFTMETAL_SIMD_NAMES(char)
SOFTMETAL_SIMD_NAMES(uchar)
SOFTMETAL_SIMD_NAMES(short)
SOFTMETAL_SIMD_NAMES(ushort)
SOFTMETAL_SIMD_NAMES(int)
SOFTMETAL_SIMD_NAMES(uint)
SOFTMETAL_SIMD_NAMES(long)
SOFTMETAL_SIMD_NAMES(ulong)
SOFTMETAL_SIMD_NAMES(half)
SOFTMETAL_SIMD_NAMES(float)
#undef SOFTMETAL_SIMD_NAMES

#define SOFTMETAL_SIMD_MATRICES(T, R)                                                              \
    typedef metal::T##2x##R simd_##T##2x##R, matrix_##T##2x##R;                                    \
    typedef metal::T##3x##R simd_##T##3x##R, matrix_##T##3x##R;                                    \
    typedef metal::T##4x##R simd_##T##4x##R, matrix_##T##4x##R;                                    \
    namespace simd {                                                                               \
    using metal::T##2x##R;                                                                         \
    using metal::T##3x##R;                                                                         \
    using metal::T##4x##R;                                                                         \
    }
SOFTMETAL_SIMD_MATRICES(half, 2)
SOFTMETAL_SIMD_MATRICES(half, 3)
SOFTMETAL_SIMD_MATRICES(half, 4)
SOFTMETAL_SIMD_MATRICES(float, 2)
SOFTMETAL_SIMD_MATRICES(float, 3)
SOFTMETAL_SIMD_MATRICES(float, 4)
#undef SOFTMETAL_SIMD_MATRICES
