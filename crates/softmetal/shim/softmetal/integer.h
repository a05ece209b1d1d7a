// Integer functions (Metal Shading Language specification, section 6.3).
#pragma once

namespace softmetal {

/// A type with twice the bits, or all that there are.
template <class T>
using wide = metal::conditional_t<
    (sizeof(T) < 8), metal::conditional_t<__is_signed(T), long, ulong>,
    metal::conditional_t<__is_signed(T), __int128, unsigned __int128>>;
template <class T> using bits = metal::make_unsigned_t<T>;
template <class T> constexpr uint width = 8 * sizeof(T);

template <class T> constexpr T saturated(wide<T> x) {
    typedef metal::numeric_limits<T> limits;
    return x > wide<T>(limits::max()) ? limits::max() : x < wide<T>(limits::min()) ? limits::min() : T(x);
}
/// The lower 24 bits, with their sign if the type has one.
constexpr int low24(int x) { return int(uint(x) << 8) >> 8; }
constexpr uint low24(uint x) { return x & 0xffffff; }

} // namespace softmetal

namespace metal {

#define SOFTMETAL_INTEGER(declaration)                                                             \
    template <class T, class = softmetal::if_integer<T>> constexpr declaration

SOFTMETAL_INTEGER(softmetal::bits<T> absdiff(T x, T y)) {
    typedef softmetal::bits<T> U;
    return x < y ? U(U(y) - U(x)) : U(U(x) - U(y));
}
SOFTMETAL_INTEGER(T addsat(T x, T y)) {
    return softmetal::saturated<T>(softmetal::wide<T>(x) + y);
}
// Unsigned differences are seen to be negative in a signed type.
SOFTMETAL_INTEGER(T subsat(T x, T y)) {
    if constexpr (is_unsigned_v<T>) return x < y ? T(0) : T(x - y);
    else return softmetal::saturated<T>(softmetal::wide<T>(x) - y);
}
SOFTMETAL_INTEGER(T hadd(T x, T y)) { return T((softmetal::wide<T>(x) + y) >> 1); }
SOFTMETAL_INTEGER(T rhadd(T x, T y)) { return T((softmetal::wide<T>(x) + y + 1) >> 1); }
SOFTMETAL_INTEGER(T mulhi(T x, T y)) {
    return T((softmetal::wide<T>(x) * softmetal::wide<T>(y)) >> softmetal::width<T>);
}
SOFTMETAL_INTEGER(T madhi(T a, T b, T c)) { return T(softmetal::bits<T>(mulhi(a, b)) + c); }
SOFTMETAL_INTEGER(T madsat(T a, T b, T c)) {
    return softmetal::saturated<T>(softmetal::wide<T>(a) * b + c);
}
SOFTMETAL_INTEGER(T rotate(T x, T count)) {
    typedef softmetal::bits<T> U;
    const uint by = uint(count) % softmetal::width<T>;
    return by == 0 ? x : T(U(U(x) << by) | U(U(x) >> (softmetal::width<T> - by)));
}
SOFTMETAL_INTEGER(T popcount(T x)) { return T(__builtin_popcountl(softmetal::bits<T>(x))); }
SOFTMETAL_INTEGER(T clz(T x)) {
    return x == 0 ? T(softmetal::width<T>)
                  : T(__builtin_clzl(softmetal::bits<T>(x)) - int(64 - softmetal::width<T>));
}
SOFTMETAL_INTEGER(T ctz(T x)) {
    return x == 0 ? T(softmetal::width<T>) : T(__builtin_ctzl(softmetal::bits<T>(x)));
}
SOFTMETAL_INTEGER(T reverse_bits(T x)) {
    return T(__builtin_bitreverse64(softmetal::bits<T>(x)) >> (64 - softmetal::width<T>));
}
/// The sign of the extracted bits counts where the type has one.
SOFTMETAL_INTEGER(T extract_bits(T x, uint offset, uint count)) {
    if (count == 0) return T(0);
    const uint above = softmetal::width<T> - count;
    return T(T(softmetal::bits<T>(x) << (above - offset)) >> above);
}
SOFTMETAL_INTEGER(T insert_bits(T base, T insert, uint offset, uint count)) {
    typedef softmetal::bits<T> U;
    if (count == 0) return base;
    const U mask = U(U(U(~U(0)) >> (softmetal::width<T> - count)) << offset);
    return T((U(base) & U(~mask)) | (U(U(insert) << offset) & mask));
}
#undef SOFTMETAL_INTEGER

// Of 32 bits only. The product has 32 bits as well.
#define SOFTMETAL_24(T)                                                                            \
    constexpr T mul24(T a, T b) {                                                                  \
        return T(uint(softmetal::low24(a)) * uint(softmetal::low24(b)));                           \
    }                                                                                              \
    constexpr T mad24(T a, T b, T c) { return T(uint(mul24(a, b)) + uint(c)); }
SOFTMETAL_24(int)
SOFTMETAL_24(uint)
#undef SOFTMETAL_24

template <class A, class B, class V = softmetal::vector<softmetal::joint<A, B>>>
vec<softmetal::bits<typename V::element_type>, V::N> absdiff(A a, B b) {
    typedef vec<softmetal::bits<typename V::element_type>, V::N> R;
    const V x = a, y = b;
    SOFTMETAL_EACH(R, absdiff(x[i], y[i]))
}
template <class A, class V = softmetal::vector<A>> V extract_bits(A a, uint offset, uint count) {
    const V x = a;
    SOFTMETAL_EACH(V, extract_bits(x[i], offset, count))
}
template <class A, class B, class V = softmetal::vector<softmetal::joint<A, B>>>
V insert_bits(A a, B b, uint offset, uint count) {
    const V x = a, y = b;
    SOFTMETAL_EACH(V, insert_bits(x[i], y[i], offset, count))
}
SOFTMETAL_LIFT1(popcount)
SOFTMETAL_LIFT1(clz)
SOFTMETAL_LIFT1(ctz)
SOFTMETAL_LIFT1(reverse_bits)
SOFTMETAL_LIFT2(addsat)
SOFTMETAL_LIFT2(subsat)
SOFTMETAL_LIFT2(hadd)
SOFTMETAL_LIFT2(rhadd)
SOFTMETAL_LIFT2(mulhi)
SOFTMETAL_LIFT2(mul24)
SOFTMETAL_LIFT2(rotate)
SOFTMETAL_LIFT3(madhi)
SOFTMETAL_LIFT3(madsat)
SOFTMETAL_LIFT3(mad24)

} // namespace metal
