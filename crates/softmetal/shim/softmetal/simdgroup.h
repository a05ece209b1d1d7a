// Functions among the lanes of a simdgroup (Metal Shading Language specification, section 6.9.2).
//
// Every lane hands its value to the runtime and computes its own result from all of them, in
// ascending lane order.
#pragma once

namespace metal {

#define SOFTMETAL_SIMD [[clang::always_inline]] SOFTMETAL_CONVERGENT inline

namespace softmetal_lanes {

struct exchange {
    softmetal::softmetal_exchange_pointer all;

    bool has(uint lane) const { return lane < 32 && (all->active >> lane & 1); }
    uint self() const { return all->lane; }
    template <class T> T at(uint lane) const {
        ulong words[2] = {all->values[lane][0], all->values[lane][1]};
        T value;
        __builtin_memcpy(&value, words, sizeof(T));
        return value;
    }
    /// The value of `lane`; the caller's own, and a report, where that lane has none.
    template <class T> SOFTMETAL_CONVERGENT T from(uint lane) const {
        if (has(lane)) return at<T>(lane);
        softmetal::softmetal_absent_lane(lane);
        return at<T>(self());
    }
};

template <softmetal::exchange_kind K = softmetal::simd_operation, class T>
SOFTMETAL_SIMD exchange give(T value) {
    static_assert(sizeof(T) <= 16, "no wider value can be exchanged");
    return {softmetal::softmetal_simd(&value, sizeof(T), K)};
}

/// `value(a) op value(b) op ...` over the active lanes from `begin` to before `end`; `start` if there are none.
template <class T, class Op> T fold(exchange lanes, uint begin, uint end, T start, Op op) {
    bool first = true;
    for (uint lane = begin; lane < end; lane++) {
        if (!lanes.has(lane)) continue;
        start = first ? lanes.at<T>(lane) : T(op(start, lanes.at<T>(lane)));
        first = false;
    }
    return start;
}

} // namespace softmetal_lanes

#define SOFTMETAL_REDUCTION(name, expression)                                                      \
    template <class T> SOFTMETAL_SIMD T name(T value) {                                            \
        auto lanes = softmetal_lanes::give(value);                                                 \
        return softmetal_lanes::fold(lanes, 0, 32, value, [](T a, T b) { return T(expression); }); \
    }
SOFTMETAL_REDUCTION(simd_sum, a + b)
SOFTMETAL_REDUCTION(simd_product, a * b)
SOFTMETAL_REDUCTION(simd_max, max(a, b))
SOFTMETAL_REDUCTION(simd_min, min(a, b))
SOFTMETAL_REDUCTION(simd_and, a & b)
SOFTMETAL_REDUCTION(simd_or, a | b)
SOFTMETAL_REDUCTION(simd_xor, a ^ b)
#undef SOFTMETAL_REDUCTION

#define SOFTMETAL_PREFIX(name, extra, neutral, expression)                                         \
    template <class T> SOFTMETAL_SIMD T name(T value) {                                            \
        auto lanes = softmetal_lanes::give(value);                                                 \
        return softmetal_lanes::fold(lanes, 0, lanes.self() + extra, T(neutral),                   \
                                     [](T a, T b) { return T(expression); });                      \
    }
SOFTMETAL_PREFIX(simd_prefix_inclusive_sum, 1, 0, a + b)
SOFTMETAL_PREFIX(simd_prefix_exclusive_sum, 0, 0, a + b)
SOFTMETAL_PREFIX(simd_prefix_inclusive_product, 1, 1, a * b)
SOFTMETAL_PREFIX(simd_prefix_exclusive_product, 0, 1, a * b)
#undef SOFTMETAL_PREFIX

template <class T> SOFTMETAL_SIMD T simd_shuffle(T value, ushort lane) {
    return softmetal_lanes::give(value).template from<T>(lane);
}
template <class T> SOFTMETAL_SIMD T simd_broadcast(T value, ushort lane) {
    return softmetal_lanes::give(value).template from<T>(lane);
}
template <class T> SOFTMETAL_SIMD T simd_broadcast_first(T value) {
    auto lanes = softmetal_lanes::give(value);
    return lanes.template at<T>(uint(__builtin_ctz(lanes.all->active)));
}
template <class T> SOFTMETAL_SIMD T simd_shuffle_xor(T value, ushort mask) {
    auto lanes = softmetal_lanes::give(value);
    return lanes.template from<T>(lanes.self() ^ mask);
}
/// The lanes whose source lies outside the simdgroup keep their own value.
template <class T> SOFTMETAL_SIMD T simd_shuffle_down(T value, ushort delta) {
    auto lanes = softmetal_lanes::give(value);
    uint source = lanes.self() + delta;
    return source < 32 ? lanes.template from<T>(source) : value;
}
template <class T> SOFTMETAL_SIMD T simd_shuffle_up(T value, ushort delta) {
    auto lanes = softmetal_lanes::give(value);
    return lanes.self() >= delta ? lanes.template from<T>(lanes.self() - delta) : value;
}
template <class T> SOFTMETAL_SIMD T simd_shuffle_rotate_down(T value, ushort delta) {
    auto lanes = softmetal_lanes::give(value);
    return lanes.template from<T>((lanes.self() + delta) % 32);
}
template <class T> SOFTMETAL_SIMD T simd_shuffle_rotate_up(T value, ushort delta) {
    auto lanes = softmetal_lanes::give(value);
    return lanes.template from<T>((lanes.self() + 32 - delta % 32) % 32);
}

SOFTMETAL_SIMD bool simd_any(bool value) {
    return softmetal_lanes::fold(softmetal_lanes::give(value), 0, 32, value,
                                 [](bool a, bool b) { return a || b; });
}
SOFTMETAL_SIMD bool simd_all(bool value) {
    return softmetal_lanes::fold(softmetal_lanes::give(value), 0, 32, value,
                                 [](bool a, bool b) { return a && b; });
}

/// A bit per lane.
struct simd_vote {
    typedef ulong vote_t;
    vote_t bits;
    constexpr explicit simd_vote(vote_t v = 0) : bits(v) {}
    constexpr explicit operator vote_t() const { return bits; }
};
SOFTMETAL_SIMD simd_vote simd_ballot(bool value) {
    auto lanes = softmetal_lanes::give(value);
    ulong bits = 0;
    for (uint lane = 0; lane < 32; lane++)
        if (lanes.has(lane) && lanes.template at<bool>(lane)) bits |= 1ul << lane;
    return simd_vote(bits);
}
SOFTMETAL_SIMD simd_vote simd_active_threads_mask() { return simd_ballot(true); }
SOFTMETAL_SIMD bool simd_is_first() {
    auto lanes = softmetal_lanes::give(true);
    return lanes.self() == uint(__builtin_ctz(lanes.all->active));
}

} // namespace metal
