// Functions among the lanes of a simdgroup or quadgroup (specification, sections 6.9.2 and 6.9.3).
//
// Every lane hands its value to the runtime and computes its own result from those of its group, in
// ascending lane order.
#pragma once

namespace metal {

#define SOFTMETAL_SIMD [[clang::always_inline]] SOFTMETAL_CONVERGENT inline

namespace softmetal_lanes {

using softmetal::exchange_kind;

struct exchange {
    softmetal::softmetal_exchange_pointer all;

    bool has(uint lane) const { return lane < 32 && (all->active >> lane & 1); }
    uint self() const { return all->lane; }
    /// The first lane of the caller's group of `width`, and the caller's place in it.
    uint first(uint width) const { return self() & ~(width - 1); }
    uint place(uint width) const { return self() & (width - 1); }
    /// The lanes of the group that take part, as bits.
    uint active(uint width) const { return all->active >> first(width) & uint((1ul << width) - 1); }

    template <class T> T at(uint lane) const {
        ulong words[2] = {all->values[lane][0], all->values[lane][1]};
        T value;
        __builtin_memcpy(&value, words, sizeof(T));
        return value;
    }
    /// The value of `lane`; the caller's own, and a report, where that lane has none.
    template <class T> SOFTMETAL_SIMD T from(uint lane) const {
        if (has(lane)) return at<T>(lane);
        softmetal::softmetal_absent_lane(lane);
        return at<T>(self());
    }
    /// The value at a place of the group, where any place from `width` on is absent.
    template <class T> SOFTMETAL_SIMD T in_group(uint width, uint place) const {
        return from<T>(place < width ? first(width) + place : 32 + place);
    }
};

/// Data to be moved, and what takes its place.
template <class T> struct filled { T data, filling; };

template <class T> struct element { typedef T type; };
template <class T, int N> struct element<vec<T, N>> { typedef T type; };
template <class T> struct element<filled<T>> : element<T> {};

template <exchange_kind K, class T> SOFTMETAL_SIMD exchange give(T value) {
    static_assert(sizeof(T) <= 16, "no wider value can be exchanged");
    return {softmetal::softmetal_simd(&value, sizeof(T), K)};
}
template <exchange_kind K, class T> SOFTMETAL_SIMD exchange share(T value) {
    typedef typename element<T>::type E;
    static_assert(is_arithmetic_v<E> && sizeof(E) <= 4 && !is_same_v<E, bool> && !is_same_v<E, bfloat>,
                  "lanes exchange integers of 8 to 32 bits, half, float, and vectors of these");
    return give<K>(value);
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

/// The same over the caller's group of `width`. A whole simdgroup has one result, which the first lane computes.
template <class T, class Op> T reduce(exchange lanes, uint width, T own, Op op) {
    const uint first = lanes.first(width);
    if (width < 32) return fold(lanes, first, first + width, own, op);
    ulong words[2] = {lanes.all->result[0], lanes.all->result[1]};
    T value;
    if (lanes.all->has_result) {
        __builtin_memcpy(&value, words, sizeof(T));
        return value;
    }
    value = fold(lanes, 0, 32, own, op);
    __builtin_memcpy(words, &value, sizeof(T));
    lanes.all->result[0] = words[0];
    lanes.all->result[1] = words[1];
    lanes.all->has_result = 1;
    return value;
}

/// Moves `data` within groups of `width`; where it came from beyond their end, the other end of `filling`.
template <exchange_kind K, class T>
SOFTMETAL_SIMD T fill(uint width, T data, T filling, int distance) {
    if constexpr (sizeof(T) <= 8) {
        typedef filled<T> both;
        auto lanes = share<K>(both{data, filling});
        const uint source = lanes.place(width) + uint(distance);
        const both found = lanes.template in_group<both>(width, source & (width - 1));
        return source < width ? found.data : found.filling;
    } else {
        auto lanes = share<K>(data);
        const uint source = lanes.place(width) + uint(distance);
        const T moved = source < width ? lanes.template in_group<T>(width, source) : data;
        auto others = share<K>(filling);
        return source < width ? moved : others.template in_group<T>(width, source & (width - 1));
    }
}

template <exchange_kind K> SOFTMETAL_SIMD uint ballot(uint width, bool value) {
    auto lanes = give<K>(value);
    uint bits = 0;
    for (uint place = 0; place < width; place++) {
        const uint lane = lanes.first(width) + place;
        if (lanes.has(lane) && lanes.template at<bool>(lane)) bits |= 1u << place;
    }
    return bits;
}

} // namespace softmetal_lanes

#define SOFTMETAL_REDUCTION(name, width, kind, expression)                                         \
    template <class T> SOFTMETAL_SIMD T name(T value) {                                            \
        auto lanes = softmetal_lanes::share<softmetal::kind>(value);                               \
        return softmetal_lanes::reduce(lanes, width, value,                                        \
                                       [](T a, T b) { return T(expression); });                    \
    }
#define SOFTMETAL_PREFIX(name, width, kind, extra, neutral, expression)                            \
    template <class T> SOFTMETAL_SIMD T name(T value) {                                            \
        auto lanes = softmetal_lanes::share<softmetal::kind>(value);                               \
        return softmetal_lanes::fold(lanes, lanes.first(width), lanes.self() + extra, T(neutral),  \
                                     [](T a, T b) { return T(expression); });                      \
    }
#define SOFTMETAL_REDUCTIONS(group, width, kind)                                                   \
    SOFTMETAL_REDUCTION(group##_sum, width, kind, a + b)                                           \
    SOFTMETAL_REDUCTION(group##_product, width, kind, a * b)                                       \
    SOFTMETAL_REDUCTION(group##_max, width, kind, max(a, b))                                       \
    SOFTMETAL_REDUCTION(group##_min, width, kind, min(a, b))                                       \
    SOFTMETAL_REDUCTION(group##_and, width, kind, a & b)                                           \
    SOFTMETAL_REDUCTION(group##_or, width, kind, a | b)                                            \
    SOFTMETAL_REDUCTION(group##_xor, width, kind, a ^ b)                                           \
    SOFTMETAL_PREFIX(group##_prefix_inclusive_sum, width, kind, 1, 0, a + b)                       \
    SOFTMETAL_PREFIX(group##_prefix_exclusive_sum, width, kind, 0, 0, a + b)                       \
    SOFTMETAL_PREFIX(group##_prefix_inclusive_product, width, kind, 1, 1, a * b)                   \
    SOFTMETAL_PREFIX(group##_prefix_exclusive_product, width, kind, 0, 1, a * b)

// Up and down, lanes whose source lies outside the group keep their own value.
#define SOFTMETAL_SHUFFLE(name, width, kind, source, keeps)                                        \
    template <class T> SOFTMETAL_SIMD T name(T value, ushort by) {                                 \
        auto lanes = softmetal_lanes::share<softmetal::kind>(value);                               \
        const uint place = lanes.place(width);                                                     \
        return keeps ? value : lanes.template in_group<T>(width, source);                          \
    }
#define SOFTMETAL_SHUFFLES(group, width, kind)                                                     \
    SOFTMETAL_SHUFFLE(group##_shuffle, width, kind, by, false)                                     \
    SOFTMETAL_SHUFFLE(group##_broadcast, width, kind, by, false)                                   \
    SOFTMETAL_SHUFFLE(group##_shuffle_xor, width, kind, place ^ by, false)                         \
    SOFTMETAL_SHUFFLE(group##_shuffle_down, width, kind, place + by, place + by >= width)          \
    SOFTMETAL_SHUFFLE(group##_shuffle_up, width, kind, place - by, place < by)                     \
    SOFTMETAL_SHUFFLE(group##_shuffle_rotate_down, width, kind, (place + by) % width, false)       \
    SOFTMETAL_SHUFFLE(group##_shuffle_rotate_up, width, kind, (place - by) % width, false)         \
    template <class T> SOFTMETAL_SIMD T group##_broadcast_first(T value) {                         \
        auto lanes = softmetal_lanes::share<softmetal::kind>(value);                               \
        return lanes.template in_group<T>(width, uint(__builtin_ctz(lanes.active(width))));        \
    }                                                                                              \
    template <class T>                                                                             \
    SOFTMETAL_SIMD T group##_shuffle_and_fill_down(T data, T filling, ushort by,                   \
                                                   ushort modulo = width) {                        \
        return softmetal_lanes::fill<softmetal::kind>(modulo, data, filling, by);                  \
    }                                                                                              \
    template <class T>                                                                             \
    SOFTMETAL_SIMD T group##_shuffle_and_fill_up(T data, T filling, ushort by,                     \
                                                 ushort modulo = width) {                          \
        return softmetal_lanes::fill<softmetal::kind>(modulo, data, filling, -int(by));            \
    }

#define SOFTMETAL_VOTES(group, width, kind)                                                        \
    /** A bit per lane. */                                                                         \
    class group##_vote {                                                                           \
      public:                                                                                      \
        typedef ulong vote_t;                                                                      \
        constexpr explicit group##_vote(vote_t v = 0) : bits(v) {}                                 \
        constexpr explicit operator vote_t() const { return bits; }                                \
        constexpr bool all() const { return (~bits & ((1ul << width) - 1)) == 0; }                 \
        constexpr bool any() const { return bits != 0; }                                           \
                                                                                                   \
      private:                                                                                     \
        vote_t bits;                                                                               \
    };                                                                                             \
    SOFTMETAL_SIMD group##_vote group##_ballot(bool value) {                                       \
        return group##_vote(softmetal_lanes::ballot<softmetal::kind>(width, value));               \
    }                                                                                              \
    SOFTMETAL_SIMD bool group##_any(bool value) {                                                  \
        return softmetal_lanes::ballot<softmetal::kind>(width, value) != 0;                        \
    }                                                                                              \
    SOFTMETAL_SIMD bool group##_all(bool value) {                                                  \
        return softmetal_lanes::ballot<softmetal::kind>(width, !value) == 0;                       \
    }                                                                                              \
    SOFTMETAL_SIMD group##_vote group##_active_threads_mask() { return group##_ballot(true); }     \
    SOFTMETAL_SIMD bool group##_is_first() {                                                       \
        auto lanes = softmetal_lanes::give<softmetal::kind>(true);                                 \
        return lanes.place(width) == uint(__builtin_ctz(lanes.active(width)));                     \
    }                                                                                              \
    /** Helpers exist for fragments only. */                                                       \
    inline bool group##_is_helper_thread() { return false; }

} // namespace metal
