// Traits and limits of types, as far as kernels ask for them.

namespace metal {

template <class T, T V> struct integral_constant {
    static constant constexpr T value = V;
    typedef T value_type;
    constexpr operator T() const { return V; }
};
template <bool V> using bool_constant = integral_constant<bool, V>;
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;

template <bool C, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool C, class T = void> using enable_if_t = typename enable_if<C, T>::type;
template <bool C, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool C, class T, class F> using conditional_t = typename conditional<C, T, F>::type;
template <class...> using void_t = void;
template <class T> T declval();

#define SOFTMETAL_CHANGE(name, expression)                                                         \
    template <class T> struct name { typedef expression type; };                                   \
    template <class T> using name##_t = typename name<T>::type;
SOFTMETAL_CHANGE(remove_const, __remove_const(T))
SOFTMETAL_CHANGE(remove_volatile, __remove_volatile(T))
SOFTMETAL_CHANGE(remove_cv, __remove_cv(T))
SOFTMETAL_CHANGE(remove_reference, __remove_reference_t(T))
SOFTMETAL_CHANGE(remove_extent, __remove_extent(T))
SOFTMETAL_CHANGE(make_signed, __make_signed(T))
SOFTMETAL_CHANGE(make_unsigned, __make_unsigned(T))
SOFTMETAL_CHANGE(add_const, const T)
SOFTMETAL_CHANGE(decay, __decay(T))
SOFTMETAL_CHANGE(remove_pointer, __remove_pointer(T))
#undef SOFTMETAL_CHANGE

#define SOFTMETAL_TRAIT(name, expression)                                                          \
    template <class T> struct name : integral_constant<bool, expression> {};                       \
    template <class T> constant constexpr bool name##_v = expression;
SOFTMETAL_TRAIT(is_floating_point, __is_floating_point(T) || __is_same(__remove_cv(T), half) ||
                                       __is_same(__remove_cv(T), bfloat))
SOFTMETAL_TRAIT(is_integral, __is_integral(T))
SOFTMETAL_TRAIT(is_arithmetic, __is_arithmetic(T))
SOFTMETAL_TRAIT(is_scalar, __is_scalar(T))
SOFTMETAL_TRAIT(is_signed, __is_signed(T))
SOFTMETAL_TRAIT(is_unsigned, __is_unsigned(T))
SOFTMETAL_TRAIT(is_pointer, __is_pointer(T))
SOFTMETAL_TRAIT(is_reference, __is_reference(T))
SOFTMETAL_TRAIT(is_const, __is_const(T))
SOFTMETAL_TRAIT(is_void, __is_void(T))
SOFTMETAL_TRAIT(is_enum, __is_enum(T))
SOFTMETAL_TRAIT(is_class, __is_class(T))
SOFTMETAL_TRAIT(is_trivially_copyable, true)
#undef SOFTMETAL_TRAIT
template <class T, class U> struct is_same : integral_constant<bool, __is_same(T, U)> {};
template <class T, class U> constant constexpr bool is_same_v = __is_same(T, U);
template <class T, class U> struct is_convertible : true_type {};
template <class T, class U> constant constexpr bool is_convertible_v = true;

template <class T> struct numeric_limits {
    static constexpr T max() { return T(1); }
    static constexpr T min() { return T(1); }
    static constexpr T lowest() { return T(1); }
    static constexpr T epsilon() { return T(1); }
    static constexpr T infinity() { return T(1); }
    static constexpr T quiet_NaN() { return T(1); }
    static constexpr T denorm_min() { return T(1); }
    static constant constexpr int digits = 1;
    static constant constexpr bool is_signed = T(-1) < T(0);
};

} // namespace metal
