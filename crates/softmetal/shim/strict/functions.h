// Functions on values. Of their types only those that matter to what they are given to are kept.

namespace metal {

template <class To, class From> To as_type(const From);

#define SOFTMETAL_OF_ONE(M)                                                                        \
    M(acos) M(acosh) M(asin) M(asinh) M(atan) M(atanh) M(ceil) M(cos) M(cosh) M(cospi) M(exp)      \
    M(exp2) M(exp10) M(fabs) M(floor) M(fract) M(log) M(log2) M(log10) M(rint) M(round) M(rsqrt)   \
    M(saturate) M(sign) M(sin) M(sinh) M(sinpi) M(sqrt) M(tan) M(tanh) M(tanpi) M(trunc)           \
    M(normalize)
#define SOFTMETAL_OF_TWO(M)                                                                        \
    M(atan2) M(copysign) M(divide) M(fdim) M(fmax) M(fmin) M(fmod) M(nextafter) M(pow) M(powr)     \
    M(max) M(min)
#define SOFTMETAL_OF_THREE(M)                                                                      \
    M(clamp) M(fma) M(fmax3) M(fmedian3) M(fmin3) M(max3) M(median3) M(min3) M(mix) M(smoothstep)
#define SOFTMETAL_DECLARE(name) template <class T> T name(const T);
SOFTMETAL_OF_ONE(SOFTMETAL_DECLARE)
SOFTMETAL_DECLARE(abs)
SOFTMETAL_DECLARE(clz)
SOFTMETAL_DECLARE(ctz)
SOFTMETAL_DECLARE(popcount)
SOFTMETAL_DECLARE(reverse_bits)
#undef SOFTMETAL_DECLARE
// Of a scalar and a vector, the result is a vector.
#define SOFTMETAL_DECLARE(name)                                                                    \
    template <class T, class U> T name(const T, const U);                                          \
    template <class T, class U, int N> vec<U, N> name(const T, const vec<U, N>);
SOFTMETAL_OF_TWO(SOFTMETAL_DECLARE)
SOFTMETAL_DECLARE(absdiff)
SOFTMETAL_DECLARE(addsat)
SOFTMETAL_DECLARE(subsat)
SOFTMETAL_DECLARE(hadd)
SOFTMETAL_DECLARE(rhadd)
SOFTMETAL_DECLARE(ldexp)
SOFTMETAL_DECLARE(mul24)
SOFTMETAL_DECLARE(mulhi)
SOFTMETAL_DECLARE(rotate)
SOFTMETAL_DECLARE(reflect)
SOFTMETAL_DECLARE(cross)
#undef SOFTMETAL_DECLARE
template <class T, class U> U step(const T, const U);
#define SOFTMETAL_DECLARE(name)                                                                    \
    template <class T, class U, class V> T name(const T, const U, const V);
SOFTMETAL_OF_THREE(SOFTMETAL_DECLARE)
SOFTMETAL_DECLARE(extract_bits)
SOFTMETAL_DECLARE(mad24)
SOFTMETAL_DECLARE(madhi)
SOFTMETAL_DECLARE(madsat)
SOFTMETAL_DECLARE(select)
SOFTMETAL_DECLARE(faceforward)
SOFTMETAL_DECLARE(refract)
#undef SOFTMETAL_DECLARE
template <class T, class U> T insert_bits(const T, const U, uint, uint);

#define SOFTMETAL_OUTPUTS                                                                          \
    template <class T, class E> T frexp(const T, thread E&);                                       \
    template <class T> T modf(const T, thread T&);                                                 \
    template <class T> T sincos(const T, thread T&);
SOFTMETAL_OUTPUTS
template <class T> int ilogb(const T);
template <class T, int N> vec<int, N> ilogb(const vec<T, N>);

#define SOFTMETAL_USE(name) using metal::name;
#define SOFTMETAL_VARIANT(variant)                                                                 \
    namespace variant {                                                                            \
    SOFTMETAL_OF_ONE(SOFTMETAL_USE)                                                                \
    SOFTMETAL_OF_TWO(SOFTMETAL_USE)                                                                \
    SOFTMETAL_OF_THREE(SOFTMETAL_USE)                                                              \
    SOFTMETAL_USE(abs)                                                                             \
    SOFTMETAL_USE(ldexp)                                                                           \
    SOFTMETAL_USE(step)                                                                            \
    SOFTMETAL_USE(frexp)                                                                           \
    SOFTMETAL_USE(modf)                                                                            \
    SOFTMETAL_USE(sincos)                                                                          \
    SOFTMETAL_USE(distance)                                                                        \
    SOFTMETAL_USE(distance_squared)                                                                \
    SOFTMETAL_USE(dot)                                                                             \
    SOFTMETAL_USE(length)                                                                          \
    SOFTMETAL_USE(length_squared)                                                                  \
    }

template <class T, int N> T dot(vec<T, N>, vec<T, N>);
template <class T, int N> T length(vec<T, N>);
template <class T, int N> T length_squared(vec<T, N>);
template <class T, int N> T distance(vec<T, N>, vec<T, N>);
template <class T, int N> T distance_squared(vec<T, N>, vec<T, N>);

SOFTMETAL_VARIANT(fast)
SOFTMETAL_VARIANT(precise)
#undef SOFTMETAL_OF_ONE
#undef SOFTMETAL_OF_TWO
#undef SOFTMETAL_OF_THREE
#undef SOFTMETAL_OUTPUTS
#undef SOFTMETAL_USE
#undef SOFTMETAL_VARIANT

#define SOFTMETAL_TEST(name)                                                                       \
    bool name(float);                                                                              \
    bool name(half);                                                                               \
    bool name(bfloat);                                                                             \
    template <class T, int N> softmetal_bool<N> name(vec<T, N>);
SOFTMETAL_TEST(isfinite)
SOFTMETAL_TEST(isinf)
SOFTMETAL_TEST(isnan)
SOFTMETAL_TEST(isnormal)
SOFTMETAL_TEST(signbit)
#undef SOFTMETAL_TEST
#define SOFTMETAL_TEST(name)                                                                       \
    template <class T, class U> bool name(const T, const U);                                       \
    template <class T, class U, int N> softmetal_bool<N> name(const vec<T, N>, const U);           \
    template <class T, class U, int N> softmetal_bool<N> name(const T, const vec<U, N>);           \
    template <class T, int N> softmetal_bool<N> name(const vec<T, N>, const vec<T, N>);
SOFTMETAL_TEST(isordered)
SOFTMETAL_TEST(isunordered)
#undef SOFTMETAL_TEST
template <class T> bool all(const T);
template <class T> bool any(const T);

#define SOFTMETAL_PACK(T, N, format)                                                               \
    uint pack_##T##_to_##format(vec<T, N>);                                                        \
    vec<T, N> unpack_##format##_to_##T(uint);
#define SOFTMETAL_PACKS(T)                                                                         \
    SOFTMETAL_PACK(T, 4, unorm4x8)                                                                 \
    SOFTMETAL_PACK(T, 4, snorm4x8)                                                                 \
    SOFTMETAL_PACK(T, 2, unorm2x16)                                                                \
    SOFTMETAL_PACK(T, 2, snorm2x16)                                                                \
    SOFTMETAL_PACK(T, 4, unorm10a2)                                                                \
    uint pack_##T##_to_srgb_unorm4x8(vec<T, 4>);                                                   \
    vec<T, 4> unpack_unorm4x8_srgb_to_##T(uint);
SOFTMETAL_PACKS(float)
SOFTMETAL_PACKS(half)
#undef SOFTMETAL_PACK
#undef SOFTMETAL_PACKS

} // namespace metal

using metal::as_type;
