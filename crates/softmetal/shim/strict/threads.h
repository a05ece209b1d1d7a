// What threads do together: barriers, lanes, matrices of a simdgroup, atomic operations.

namespace metal {

enum class mem_flags : uint {
    mem_none = 0,
    mem_device = 1,
    mem_threadgroup = 2,
    mem_texture = 4,
    mem_threadgroup_imageblock = 8,
    mem_object_data = 16,
    mem_device_and_threadgroup = 3,
};
constexpr mem_flags operator|(mem_flags a, mem_flags) { return a; }
enum memory_order { memory_order_relaxed, memory_order_seq_cst };
enum thread_scope {
    thread_scope_thread,
    thread_scope_simdgroup,
    thread_scope_threadgroup,
    thread_scope_device,
};

void threadgroup_barrier(mem_flags, thread_scope = thread_scope_threadgroup);
void simdgroup_barrier(mem_flags, thread_scope = thread_scope_simdgroup);
void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device);

#define SOFTMETAL_LANES(group)                                                                     \
    template <class T> T group##_broadcast(const T, ushort);                                       \
    template <class T> T group##_broadcast_first(const T);                                         \
    template <class T> T group##_shuffle(const T, ushort);                                         \
    template <class T> T group##_shuffle_up(const T, ushort);                                      \
    template <class T> T group##_shuffle_down(const T, ushort);                                    \
    template <class T> T group##_shuffle_xor(const T, ushort);                                     \
    template <class T> T group##_shuffle_rotate_up(const T, ushort);                               \
    template <class T> T group##_shuffle_rotate_down(const T, ushort);                             \
    template <class T> T group##_shuffle_and_fill_up(const T, const T, ushort, ushort = 4);        \
    template <class T> T group##_shuffle_and_fill_down(const T, const T, ushort, ushort = 4);      \
    template <class T> T group##_sum(const T);                                                     \
    template <class T> T group##_product(const T);                                                 \
    template <class T> T group##_min(const T);                                                     \
    template <class T> T group##_max(const T);                                                     \
    template <class T> T group##_and(const T);                                                     \
    template <class T> T group##_or(const T);                                                      \
    template <class T> T group##_xor(const T);                                                     \
    template <class T> T group##_prefix_inclusive_sum(const T);                                    \
    template <class T> T group##_prefix_exclusive_sum(const T);                                    \
    template <class T> T group##_prefix_inclusive_product(const T);                                \
    template <class T> T group##_prefix_exclusive_product(const T);                                \
    bool group##_all(bool);                                                                        \
    bool group##_any(bool);                                                                        \
    bool group##_is_first();                                                                       \
    bool group##_is_helper_thread();                                                               \
    struct group##_vote {                                                                          \
        typedef ulong vote_t;                                                                      \
        explicit group##_vote(vote_t);                                                             \
        explicit operator vote_t() const;                                                          \
        bool all() const;                                                                          \
        bool any() const;                                                                          \
    };                                                                                             \
    group##_vote group##_ballot(bool);                                                             \
    group##_vote group##_active_threads_mask();
SOFTMETAL_LANES(simd)
SOFTMETAL_LANES(quad)
#undef SOFTMETAL_LANES

// A member of a method's object too: no space is asked of the references below.
template <class T, int C, int R = C> struct simdgroup_matrix {
    simdgroup_matrix() = default;
    explicit simdgroup_matrix(T);
    thread vec<T, 2>& thread_elements();
    const thread vec<T, 2>& thread_elements() const;

  private:
    vec<T, 2> elements;
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int C, int R = C> simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T);
template <class T, int C> simdgroup_matrix<T, C, C> make_diagonal_simdgroup_matrix(T);
#define SOFTMETAL_LOAD(space)                                                                      \
    template <class T, int C, int R>                                                               \
    void simdgroup_load(simdgroup_matrix<T, C, R>&, const space T*, ulong = C,              \
                        vec<ulong, 2> = 0, bool = false);                                          \
    template <class T, int C, int R>                                                               \
    void simdgroup_store(simdgroup_matrix<T, C, R>, space T*, ulong = C, vec<ulong, 2> = 0,        \
                         bool = false);
SOFTMETAL_LOAD(device)
SOFTMETAL_LOAD(threadgroup)
#undef SOFTMETAL_LOAD
template <class D, class A, class B, class C>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8>&, simdgroup_matrix<A, 8>&,
                                   simdgroup_matrix<B, 8>&, simdgroup_matrix<C, 8>&);
template <class D, class A, class B>
void simdgroup_multiply(simdgroup_matrix<D, 8>&, simdgroup_matrix<A, 8>&,
                        simdgroup_matrix<B, 8>&);
template <class T>
simdgroup_matrix<T, 8> operator*(simdgroup_matrix<T, 8>, simdgroup_matrix<T, 8>);

template <class T> struct atomic {
    T value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
typedef atomic<ulong> atomic_ulong;

#define SOFTMETAL_FETCH(name)                                                                      \
    template <class T, class U>                                                                    \
    T atomic_fetch_##name##_explicit(volatile SOFTMETAL_SPACE atomic<T>*, const U, memory_order);
#define SOFTMETAL_ATOMICS                                                                          \
    template <class T>                                                                             \
    T atomic_load_explicit(const volatile SOFTMETAL_SPACE atomic<T>*, memory_order);               \
    template <class T, class U>                                                                    \
    void atomic_store_explicit(volatile SOFTMETAL_SPACE atomic<T>*, const U, memory_order);        \
    template <class T, class U>                                                                    \
    T atomic_exchange_explicit(volatile SOFTMETAL_SPACE atomic<T>*, const U, memory_order);        \
    template <class T, class U>                                                                    \
    bool atomic_compare_exchange_weak_explicit(volatile SOFTMETAL_SPACE atomic<T>*, thread T*,     \
                                               const U, memory_order, memory_order);               \
    SOFTMETAL_FETCH(add)                                                                           \
    SOFTMETAL_FETCH(sub)                                                                           \
    SOFTMETAL_FETCH(min)                                                                           \
    SOFTMETAL_FETCH(max)                                                                           \
    SOFTMETAL_FETCH(and)                                                                           \
    SOFTMETAL_FETCH(or)                                                                            \
    SOFTMETAL_FETCH(xor)                                                                           \
    template <class T>                                                                             \
    void atomic_max_explicit(volatile SOFTMETAL_SPACE atomic<T>*, const T, memory_order);          \
    template <class T>                                                                             \
    void atomic_min_explicit(volatile SOFTMETAL_SPACE atomic<T>*, const T, memory_order);
#define SOFTMETAL_SPACE device
SOFTMETAL_ATOMICS
#undef SOFTMETAL_SPACE
#define SOFTMETAL_SPACE threadgroup
SOFTMETAL_ATOMICS
#undef SOFTMETAL_SPACE
#undef SOFTMETAL_ATOMICS
#undef SOFTMETAL_FETCH

} // namespace metal

using metal::atomic_bool;
using metal::atomic_float;
using metal::atomic_int;
using metal::atomic_uint;
using metal::atomic_ulong;
