// Traits of types, with the names and meanings of C++.
#pragma once

namespace metal {

template <class T, T V> struct integral_constant {
    typedef T value_type;
    static constexpr T value = V;
    constexpr operator T() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <bool C, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool C, class T = void> using enable_if_t = typename enable_if<C, T>::type;

template <bool C, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool C, class T, class F> using conditional_t = typename conditional<C, T, F>::type;

template <class...> using void_t = void;

#define SOFTMETAL_TRAIT(name, value)                                                               \
    template <class T> struct name : bool_constant<value> {};                                      \
    template <class T> constexpr bool name##_v = value;
SOFTMETAL_TRAIT(is_void, __is_void(T))
SOFTMETAL_TRAIT(is_integral, __is_integral(T))
SOFTMETAL_TRAIT(is_floating_point, __is_floating_point(T))
SOFTMETAL_TRAIT(is_arithmetic, __is_arithmetic(T))
SOFTMETAL_TRAIT(is_signed, __is_signed(T))
SOFTMETAL_TRAIT(is_unsigned, __is_unsigned(T))
SOFTMETAL_TRAIT(is_array, __is_array(T))
SOFTMETAL_TRAIT(is_pointer, __is_pointer(T))
SOFTMETAL_TRAIT(is_reference, __is_reference(T))
SOFTMETAL_TRAIT(is_lvalue_reference, __is_lvalue_reference(T))
SOFTMETAL_TRAIT(is_rvalue_reference, __is_rvalue_reference(T))
SOFTMETAL_TRAIT(is_function, __is_function(T))
SOFTMETAL_TRAIT(is_enum, __is_enum(T))
SOFTMETAL_TRAIT(is_union, __is_union(T))
SOFTMETAL_TRAIT(is_class, __is_class(T))
SOFTMETAL_TRAIT(is_empty, __is_empty(T))
SOFTMETAL_TRAIT(is_scalar, __is_scalar(T))
SOFTMETAL_TRAIT(is_object, __is_object(T))
SOFTMETAL_TRAIT(is_fundamental, __is_fundamental(T))
SOFTMETAL_TRAIT(is_compound, __is_compound(T))
SOFTMETAL_TRAIT(is_const, __is_const(T))
SOFTMETAL_TRAIT(is_volatile, __is_volatile(T))
SOFTMETAL_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
SOFTMETAL_TRAIT(is_standard_layout, __is_standard_layout(T))
#undef SOFTMETAL_TRAIT

#define SOFTMETAL_RELATION(name, value)                                                            \
    template <class T, class U> struct name : bool_constant<value> {};                             \
    template <class T, class U> constexpr bool name##_v = value;
SOFTMETAL_RELATION(is_same, __is_same(T, U))
SOFTMETAL_RELATION(is_base_of, __is_base_of(T, U))
SOFTMETAL_RELATION(is_convertible, __is_convertible_to(T, U))
SOFTMETAL_RELATION(is_assignable, __is_assignable(T, U))
#undef SOFTMETAL_RELATION
template <class T, class... A> struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T, class... A> constexpr bool is_constructible_v = __is_constructible(T, A...);

#define SOFTMETAL_CHANGE(name, result)                                                             \
    template <class T> struct name { typedef result type; };                                       \
    template <class T> using name##_t = result;
SOFTMETAL_CHANGE(remove_const, __remove_const(T))
SOFTMETAL_CHANGE(remove_volatile, __remove_volatile(T))
SOFTMETAL_CHANGE(remove_cv, __remove_cv(T))
SOFTMETAL_CHANGE(remove_reference, __remove_reference_t(T))
SOFTMETAL_CHANGE(remove_pointer, __remove_pointer(T))
SOFTMETAL_CHANGE(remove_extent, __remove_extent(T))
SOFTMETAL_CHANGE(remove_all_extents, __remove_all_extents(T))
SOFTMETAL_CHANGE(add_lvalue_reference, __add_lvalue_reference(T))
SOFTMETAL_CHANGE(add_rvalue_reference, __add_rvalue_reference(T))
SOFTMETAL_CHANGE(add_pointer, __add_pointer(T))
SOFTMETAL_CHANGE(add_const, const T)
SOFTMETAL_CHANGE(decay, __decay(T))
SOFTMETAL_CHANGE(make_signed, __make_signed(T))
SOFTMETAL_CHANGE(make_unsigned, __make_unsigned(T))
SOFTMETAL_CHANGE(underlying_type, __underlying_type(T))
#undef SOFTMETAL_CHANGE

template <class T> __add_rvalue_reference(T) declval();

/// The bits of `from` as a `To` of the same size (specification, section 2.20).
template <class To, class From> inline To as_type(From from) {
    static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
    To to;
    __builtin_memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(To));
    return to;
}

} // namespace metal

using metal::as_type;
