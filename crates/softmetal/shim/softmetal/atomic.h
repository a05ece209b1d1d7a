// Atomic operations, relaxed order only (Metal Shading Language specification, section 6.15).
#pragma once

namespace metal {

template <class T> struct atomic { T value; };

#define SOFTMETAL_ENTER(operation) softmetal::softmetal_atomic(object, sizeof(T), operation)

template <class T> inline T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
    SOFTMETAL_ENTER(0);
    T value;
    __atomic_load(&object->value, &value, __ATOMIC_RELAXED);
    return value;
}
template <class T, class U>
inline void atomic_store_explicit(volatile atomic<T>* object, U desired, memory_order) {
    SOFTMETAL_ENTER(1);
    T value = T(desired);
    __atomic_store(&object->value, &value, __ATOMIC_RELAXED);
}
template <class T, class U>
inline T atomic_exchange_explicit(volatile atomic<T>* object, U desired, memory_order) {
    SOFTMETAL_ENTER(2);
    T value = T(desired), before;
    __atomic_exchange(&object->value, &value, &before, __ATOMIC_RELAXED);
    return before;
}
template <class T, class U>
inline bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* object, T* expected, U desired,
                                                  memory_order, memory_order) {
    SOFTMETAL_ENTER(2);
    T value = T(desired);
    return __atomic_compare_exchange(&object->value, expected, &value, true, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

#define SOFTMETAL_FETCH(name, expression)                                                          \
    template <class T, class U>                                                                    \
    inline T atomic_fetch_##name##_explicit(volatile atomic<T>* object, U operand, memory_order) { \
        SOFTMETAL_ENTER(2);                                                                        \
        T b = T(operand), a, result;                                                               \
        __atomic_load(&object->value, &a, __ATOMIC_RELAXED);                                       \
        do {                                                                                       \
            result = T(expression);                                                                \
        } while (!__atomic_compare_exchange(&object->value, &a, &result, true, __ATOMIC_RELAXED,   \
                                            __ATOMIC_RELAXED));                                    \
        return a;                                                                                  \
    }
SOFTMETAL_FETCH(add, a + b)
SOFTMETAL_FETCH(sub, a - b)
SOFTMETAL_FETCH(max, a < b ? b : a)
SOFTMETAL_FETCH(min, b < a ? b : a)
SOFTMETAL_FETCH(and, a & b)
SOFTMETAL_FETCH(or, a | b)
SOFTMETAL_FETCH(xor, a ^ b)
#undef SOFTMETAL_FETCH
#undef SOFTMETAL_ENTER

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
