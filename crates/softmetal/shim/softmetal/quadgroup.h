// Functions among the four lanes of a quadgroup (Metal Shading Language specification, section 6.9.3).
//
// They are exchanges of the whole simdgroup here: its other lanes have to take part.
#pragma once

namespace metal {

template <class T> SOFTMETAL_SIMD T quad_shuffle(T value, ushort lane) {
    auto lanes = softmetal_lanes::give(value);
    return lanes.template from<T>((lanes.self() & ~3u) + (lane & 3));
}
template <class T> SOFTMETAL_SIMD T quad_broadcast(T value, ushort lane) {
    return quad_shuffle(value, lane);
}
template <class T> SOFTMETAL_SIMD T quad_shuffle_xor(T value, ushort mask) {
    auto lanes = softmetal_lanes::give(value);
    return lanes.template from<T>(lanes.self() ^ (mask & 3));
}
/// The lanes whose source lies outside the quadgroup keep their own value.
template <class T> SOFTMETAL_SIMD T quad_shuffle_down(T value, ushort delta) {
    auto lanes = softmetal_lanes::give(value);
    const uint lane = lanes.self();
    return lane % 4 + delta < 4 ? lanes.template from<T>(lane + delta) : value;
}
template <class T> SOFTMETAL_SIMD T quad_shuffle_up(T value, ushort delta) {
    auto lanes = softmetal_lanes::give(value);
    const uint lane = lanes.self();
    return lane % 4 >= delta ? lanes.template from<T>(lane - delta) : value;
}

#define SOFTMETAL_QUAD_REDUCTION(name, expression)                                                 \
    template <class T> SOFTMETAL_SIMD T name(T value) {                                            \
        auto lanes = softmetal_lanes::give(value);                                                 \
        const uint first = lanes.self() & ~3u;                                                     \
        return softmetal_lanes::fold(lanes, first, first + 4, value,                               \
                                     [](T a, T b) { return T(expression); });                      \
    }
SOFTMETAL_QUAD_REDUCTION(quad_sum, a + b)
SOFTMETAL_QUAD_REDUCTION(quad_product, a * b)
SOFTMETAL_QUAD_REDUCTION(quad_max, max(a, b))
SOFTMETAL_QUAD_REDUCTION(quad_min, min(a, b))
SOFTMETAL_QUAD_REDUCTION(quad_and, a & b)
SOFTMETAL_QUAD_REDUCTION(quad_or, a | b)
SOFTMETAL_QUAD_REDUCTION(quad_xor, a ^ b)
#undef SOFTMETAL_QUAD_REDUCTION

SOFTMETAL_SIMD bool quad_any(bool value) { return quad_or(uint(value)) != 0; }
SOFTMETAL_SIMD bool quad_all(bool value) { return quad_and(uint(value)) != 0; }

} // namespace metal
