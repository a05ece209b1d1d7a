// Four neighbouring elements of a row as a vector; the last of a row may have fewer.
#pragma once

/// Whether the rows of every operand start at multiples of four elements.
constant bool vectorized [[function_constant(0)]];

/// Elements at `at` of which the row has `left`, at least one; 0 beyond its end.
template <typename Vector, typename Packed, typename Element>
inline Vector vector_at(device const Element* at, uint left) {
    if (left >= 4) {
        if (vectorized) {
            return *(device const Vector*)at;
        }
        return Vector(*(device const Packed*)at);
    }
    const Element none = Element(0);
    return Vector(at[0], left > 1 ? at[1] : none, left > 2 ? at[2] : none, none);
}

inline float4 vector_at(device const float* at, uint left) {
    return vector_at<float4, packed_float4>(at, left);
}

/// Stores the elements that the row has.
inline void put_vector(device float* at, float4 value, uint left) {
    if (left >= 4 && vectorized) {
        *(device float4*)at = value;
    } else if (left >= 4) {
        *(device packed_float4*)at = packed_float4(value);
    } else {
        at[0] = value.x;
        if (left > 1) {
            at[1] = value.y;
        }
        if (left > 2) {
            at[2] = value.z;
        }
    }
}
