// Atomic functions (Metal Shading Language specification, sections 2.6 and 6.15). Each type has those
// operations that the specification gives it; their order is always relaxed.
#pragma once

namespace softmetal {

template <class T, class... Us> constexpr bool is_one_of = (__is_same(T, Us) || ...);

} // namespace softmetal

namespace metal {

template <class T> struct atomic {
    static_assert(softmetal::is_one_of<T, int, uint, bool, float, ulong>,
                  "atomics are of int, uint, bool, float or ulong");
    T value;
};

#define SOFTMETAL_RELAXED(order)                                                                   \
    __attribute__((diagnose_if(order != memory_order_relaxed, "atomic operations are relaxed: "    \
                               "atomic_thread_fence takes other orders", "error")))
#define SOFTMETAL_ATOMIC(operation, ...)                                                           \
    static_assert(softmetal::is_one_of<T, __VA_ARGS__>, "this type has no such atomic operation"); \
    softmetal::softmetal_atomic(object, sizeof(T), operation)
#define SOFTMETAL_LOAD 0
#define SOFTMETAL_STORE 1
#define SOFTMETAL_MODIFY 2

template <class T>
inline T atomic_load_explicit(const volatile atomic<T>* object, memory_order order)
    SOFTMETAL_RELAXED(order) {
    SOFTMETAL_ATOMIC(SOFTMETAL_LOAD, int, uint, bool, float);
    T value;
    __atomic_load(&object->value, &value, __ATOMIC_RELAXED);
    return value;
}
template <class T, class U>
inline void atomic_store_explicit(volatile atomic<T>* object, U desired, memory_order order)
    SOFTMETAL_RELAXED(order) {
    SOFTMETAL_ATOMIC(SOFTMETAL_STORE, int, uint, bool, float);
    T value = T(desired);
    __atomic_store(&object->value, &value, __ATOMIC_RELAXED);
}
template <class T, class U>
inline T atomic_exchange_explicit(volatile atomic<T>* object, U desired, memory_order order)
    SOFTMETAL_RELAXED(order) {
    SOFTMETAL_ATOMIC(SOFTMETAL_MODIFY, int, uint, bool, float);
    T value = T(desired), before;
    __atomic_exchange(&object->value, &value, &before, __ATOMIC_RELAXED);
    return before;
}
/// It never fails without reason here.
template <class T, class U>
inline bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* object, T* expected, U desired,
                                                  memory_order success, memory_order failure)
    SOFTMETAL_RELAXED(success) SOFTMETAL_RELAXED(failure) {
    SOFTMETAL_ATOMIC(SOFTMETAL_MODIFY, int, uint, bool, float);
    T value = T(desired);
    return __atomic_compare_exchange(&object->value, expected, &value, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

#define SOFTMETAL_FETCH(R, function, expression, ...)                                              \
    template <class T, class U>                                                                    \
    inline R function(volatile atomic<T>* object, U operand, memory_order order)                   \
        SOFTMETAL_RELAXED(order) {                                                                 \
        SOFTMETAL_ATOMIC(SOFTMETAL_MODIFY, __VA_ARGS__);                                           \
        T b = T(operand), a, result;                                                               \
        __atomic_load(&object->value, &a, __ATOMIC_RELAXED);                                       \
        do {                                                                                       \
            result = T(expression);                                                                \
        } while (!__atomic_compare_exchange(&object->value, &a, &result, true, __ATOMIC_RELAXED,   \
                                            __ATOMIC_RELAXED));                                    \
        return R(a);                                                                               \
    }
SOFTMETAL_FETCH(T, atomic_fetch_add_explicit, a + b, int, uint, float)
SOFTMETAL_FETCH(T, atomic_fetch_sub_explicit, a - b, int, uint, float)
SOFTMETAL_FETCH(T, atomic_fetch_max_explicit, a < b ? b : a, int, uint)
SOFTMETAL_FETCH(T, atomic_fetch_min_explicit, b < a ? b : a, int, uint)
SOFTMETAL_FETCH(T, atomic_fetch_and_explicit, a & b, int, uint)
SOFTMETAL_FETCH(T, atomic_fetch_or_explicit, a | b, int, uint)
SOFTMETAL_FETCH(T, atomic_fetch_xor_explicit, a ^ b, int, uint)
// All that there is for 64 bits, from Apple8 on.
SOFTMETAL_FETCH(void, atomic_max_explicit, a < b ? b : a, ulong)
SOFTMETAL_FETCH(void, atomic_min_explicit, b < a ? b : a, ulong)
#undef SOFTMETAL_FETCH
#undef SOFTMETAL_ATOMIC
#undef SOFTMETAL_LOAD
#undef SOFTMETAL_STORE
#undef SOFTMETAL_MODIFY
#undef SOFTMETAL_RELAXED

typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
typedef atomic<ulong> atomic_ulong;

} // namespace metal

using metal::atomic_bool;
using metal::atomic_float;
using metal::atomic_int;
using metal::atomic_uint;
using metal::atomic_ulong;
