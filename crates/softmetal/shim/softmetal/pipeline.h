// Entry points: how the runtime calls a kernel with its arguments, and what it can know about them.
#pragma once

namespace softmetal {

/// What a kernel parameter is bound to.
enum class kind : uint { buffer, threadgroup_memory, builtin };

/// Values with an attribute of section 5.2.3.6, in the order of `BUILTINS` in `front/emit.rs`.
enum class builtin : uint {
    thread_position_in_grid,
    thread_position_in_threadgroup,
    thread_index_in_threadgroup,
    thread_index_in_simdgroup,
    simdgroup_index_in_threadgroup,
    threadgroup_position_in_grid,
    threads_per_grid,
    threads_per_threadgroup,
    threadgroups_per_grid,
    threads_per_simdgroup,
    simdgroups_per_threadgroup,
    dispatch_threads_per_threadgroup,
    thread_index_in_quadgroup,
    quadgroup_index_in_threadgroup,
    thread_execution_width,
    quadgroups_per_threadgroup,
    dispatch_simdgroups_per_threadgroup,
    dispatch_quadgroups_per_threadgroup,
    count,
};

/// One thread's arguments.
struct frame {
    void* const* buffers;
    void* const* threadgroup_memory;
    uint builtins[uint(builtin::count)][3];
};

/// A parameter of a kernel as C++ sees its type.
struct parameter {
    kind bound_to;
    uint index;     ///< Buffer or threadgroup index, or the builtin.
    uint reference; ///< 1 for a reference to one element.
    uint read_only; ///< 1 where the pointee is const.
    uint size;      ///< Bytes of the pointee, 1 for void; of a builtin, its components.
    uint align;     ///< Alignment of the pointee.
    const char* name;
    bool (*present)(); ///< Asks the function constant that decides whether it exists; null if none does.
};

/// A parameter's name and condition.
struct named {
    const char* name;
    bool (*present)();
    constexpr named(const char* n, bool (*p)() = nullptr) : name(n), present(p) {}
};

struct kernel_entry {
    const char* name;
    void (*run)(const frame*);
    const parameter* parameters;
    uint parameter_count;
    uint max_threads; ///< `max_total_threads_per_threadgroup`, 0 where there is none.
};

struct function_constant {
    const char* name;
    uint index;
    uint size;
    uint optional; ///< Whether the source asks if it is defined.
    void* (*storage)(); ///< Of the calling OS thread.
    bool* (*defined)();
};

/// A program-scope value computed from function constants.
struct derived_constant {
    const char* name;
    const char* depends_on; ///< Names of constants of either kind, with spaces between.
    uint size;
    void* (*storage)(); ///< Of the calling OS thread.
};

struct module_table {
    const kernel_entry* kernels;
    const function_constant* constants;
    const derived_constant* derived;
    uint kernel_count;
    uint constant_count;
    uint derived_count;
    void (*derive_constants)(); ///< Evaluates program-scope values that depend on function constants.
};

template <kind K, uint Index> struct slot {};

template <class P> struct pointee { typedef P type; static constexpr bool reference = false; };
template <class P> struct pointee<P*> { typedef P type; static constexpr bool reference = false; };
template <class P> struct pointee<P&> { typedef P type; static constexpr bool reference = true; };

template <class P> P from_pointer(void* p) {
    if constexpr (pointee<P>::reference) return *static_cast<typename pointee<P>::type*>(p);
    else return static_cast<P>(p);
}

template <class P> struct from_builtin {
    static_assert(metal::is_same_v<P, uint> || metal::is_same_v<P, ushort>,
                  "an attribute of a position or size needs ushort, uint or their vectors");
    static P get(const uint (&v)[3]) { return P(v[0]); }
};
template <class T> struct from_builtin<metal::vec<T, 2>> {
    static metal::vec<T, 2> get(const uint (&v)[3]) {
        return {from_builtin<T>::get(v), T(v[1])};
    }
};
template <class T> struct from_builtin<metal::vec<T, 3>> {
    static metal::vec<T, 3> get(const uint (&v)[3]) {
        return {from_builtin<T>::get(v), T(v[1]), T(v[2])};
    }
};

template <class P> struct components { static constexpr uint count = 1; };
template <class T, int N> struct components<metal::vec<T, N>> { static constexpr uint count = N; };

template <class P, uint I> P argument(const frame& f, slot<kind::buffer, I>) {
    return from_pointer<P>(f.buffers[I]);
}
template <class P, uint I> P argument(const frame& f, slot<kind::threadgroup_memory, I>) {
    return from_pointer<P>(f.threadgroup_memory[I]);
}
template <class P, uint I> P argument(const frame& f, slot<kind::builtin, I>) {
    return from_builtin<__remove_cv(P)>::get(f.builtins[I]);
}

template <class P, kind K, uint I> constexpr parameter describe(slot<K, I>, named of) {
    typedef typename pointee<P>::type T;
    if constexpr (K == kind::builtin)
        return {K, I, 0, 0, components<__remove_cv(P)>::count, alignof(P), of.name, of.present};
    else if constexpr (metal::is_same_v<__remove_cv(T), void>)
        return {K, I, 0, __is_const(T), 1, 1, of.name, of.present};
    else
        return {K, I, pointee<P>::reference, __is_const(T), sizeof(T), alignof(T), of.name, of.present};
}

template <auto F> struct entry;
template <class... P, void (*F)(P...)> struct entry<F> {
    template <class... S> static void run(const frame& f) { F(argument<P>(f, S{})...); }
    template <class... S> struct table {
        parameter of[sizeof...(P) + 1];
        template <class... N>
        constexpr table(N... names) : of{describe<P>(S{}, names)..., parameter{}} {}
    };
};

} // namespace softmetal
