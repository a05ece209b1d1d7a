// Traits of types.

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
SOFTMETAL_CHANGE(remove_all_extents, __remove_all_extents(T))
SOFTMETAL_CHANGE(add_lvalue_reference, __add_lvalue_reference(T))
SOFTMETAL_CHANGE(add_rvalue_reference, __add_rvalue_reference(T))
SOFTMETAL_CHANGE(add_pointer, __add_pointer(T))
SOFTMETAL_CHANGE(underlying_type, __underlying_type(T))
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
SOFTMETAL_TRAIT(is_union, __is_union(T))
SOFTMETAL_TRAIT(is_array, __is_array(T))
SOFTMETAL_TRAIT(is_empty, __is_empty(T))
SOFTMETAL_TRAIT(is_function, __is_function(T))
SOFTMETAL_TRAIT(is_object, __is_object(T))
SOFTMETAL_TRAIT(is_fundamental, __is_fundamental(T))
SOFTMETAL_TRAIT(is_compound, __is_compound(T))
SOFTMETAL_TRAIT(is_volatile, __is_volatile(T))
SOFTMETAL_TRAIT(is_lvalue_reference, __is_lvalue_reference(T))
SOFTMETAL_TRAIT(is_rvalue_reference, __is_rvalue_reference(T))
SOFTMETAL_TRAIT(is_standard_layout, true)
SOFTMETAL_TRAIT(is_trivially_copyable, true)
#undef SOFTMETAL_TRAIT
#define SOFTMETAL_RELATION(name, expression)                                                       \
    template <class T, class... U> struct name : integral_constant<bool, expression> {};           \
    template <class T, class... U> constant constexpr bool name##_v = expression;
SOFTMETAL_RELATION(is_same, __is_same(T, U...))
SOFTMETAL_RELATION(is_base_of, __is_base_of(T, U...))
SOFTMETAL_RELATION(is_convertible, true)
SOFTMETAL_RELATION(is_assignable, true)
SOFTMETAL_RELATION(is_constructible, true)
#undef SOFTMETAL_RELATION

} // namespace metal
