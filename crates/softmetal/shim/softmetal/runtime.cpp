// Forwards the compiler's and the library's calls to the runtime. Compiled without instrumentation.

#include <softmetal/scalar.h>
#include <softmetal/hooks.h>

namespace {

/// As in `module/abi.rs`.
struct hooks {
    void (*access)(const void* at, ulong size, uint kind, const void* pc);
    void (*barrier)(uint scope, uint flags, const void* pc);
    softmetal::softmetal_exchange_pointer (*simd)(const void* value, uint size, uint kind, const void* pc);
    void (*absent_lane)(uint lane, const void* pc);
    void* (*threadgroup_variable)(const void* key, ulong size, uint align, const char* name, const void* pc);
    void (*trap)(uint kind, const void* pc);
    void (*array_index)(long index, const char* array, const void* pc);
};

const hooks* runtime;

// Kinds of access: bit 0 write, bit 1 the compiler relies on natural alignment, bit 2 atomic,
// bit 3 a write that reads first.
enum : uint { read = 0, write = 1, aligned = 2, atomic = 4, modify = 8 };

// Outside a dispatch no thread can end. A computation that cannot go on returns to whoever began it.
thread_local void* before_attempt[5];
thread_local bool is_attempt;

[[noreturn]] void give_up() {
    if (is_attempt) __builtin_longjmp(before_attempt, 1);
    __builtin_trap();
}

} // namespace

#define PC __builtin_return_address(0)

extern "C" {

void softmetal_attach(const hooks* h) { runtime = h; }

void __tsan_init() {}
#define SOFTMETAL_ACCESS(n)                                                                        \
    void __tsan_read##n(void* at) { runtime->access(at, n, read | aligned, PC); }                  \
    void __tsan_write##n(void* at) { runtime->access(at, n, write | aligned, PC); }                \
    void __tsan_unaligned_read##n(void* at) { runtime->access(at, n, read, PC); }                  \
    void __tsan_unaligned_write##n(void* at) { runtime->access(at, n, write, PC); }
SOFTMETAL_ACCESS(1)
SOFTMETAL_ACCESS(2)
SOFTMETAL_ACCESS(4)
SOFTMETAL_ACCESS(8)
SOFTMETAL_ACCESS(16)

void* __tsan_memcpy(void* to, const void* from, ulong n) {
    runtime->access(from, n, read, PC);
    runtime->access(to, n, write, PC);
    return __builtin_memcpy(to, from, n);
}
void* __tsan_memmove(void* to, const void* from, ulong n) {
    runtime->access(from, n, read, PC);
    runtime->access(to, n, write, PC);
    return __builtin_memmove(to, from, n);
}
void* __tsan_memset(void* to, int value, ulong n) {
    runtime->access(to, n, write, PC);
    return __builtin_memset(to, value, n);
}

#ifdef __x86_64__
// What the optimizer makes of copies and loops, in the library itself: a fault in the C library's would be no kernel's.
#define SOFTMETAL_HIDDEN __attribute__((visibility("hidden")))
SOFTMETAL_HIDDEN void* memcpy(void* to, const void* from, ulong n) {
    void* const start = to;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    return start;
}
SOFTMETAL_HIDDEN void* memmove(void* to, const void* from, ulong n) {
    if (ulong(to) - ulong(from) >= n) return memcpy(to, from, n);
    uchar* const target = static_cast<uchar*>(to);
    const volatile uchar* const source = static_cast<const volatile uchar*>(from);
    while (n-- > 0) target[n] = source[n];
    return to;
}
SOFTMETAL_HIDDEN void* memset(void* to, int value, ulong n) {
    void* const start = to;
    asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
    return start;
}
#endif

void softmetal_barrier(uint scope, uint flags) { runtime->barrier(scope, flags, PC); }
softmetal::softmetal_exchange_pointer softmetal_simd(const void* value, uint size, uint kind) {
    return runtime->simd(value, size, kind, PC);
}
void softmetal_multiply(softmetal::softmetal_exchange_pointer all) {
    typedef float row __attribute__((vector_size(32)));
    float a[8][8];
    row b[8];
    for (uint lane = 0; lane < 32; lane++) {
        const uint row = softmetal::row_of(lane), column = softmetal::column_of(lane);
        softmetal::matrix_pair pair;
        const ulong words[2] = {all->values[lane][0], all->values[lane][1]};
        __builtin_memcpy(&pair, words, sizeof(pair));
        for (uint i = 0; i < 2; i++) {
            a[row][column + i] = pair.a[i];
            b[row][column + i] = pair.b[i];
        }
    }
    for (uint r = 0; r < 8; r++) {
        row sum = a[r][0] * b[0];
        for (uint k = 1; k < 8; k++) sum += a[r][k] * b[k];
        for (uint column = 0; column < 8; column++) all->products[r][column] = sum[column];
    }
    all->has_result = 1;
}
void softmetal_absent_lane(uint lane) { runtime->absent_lane(lane, PC); }
void softmetal_atomic(const volatile void* at, uint size, uint operation) {
    const uint kinds[] = {read, write, write | modify};
    runtime->access(const_cast<const void*>(at), size, kinds[operation] | aligned | atomic, PC);
}
void* softmetal_threadgroup_variable(const void* key, ulong size, uint align, const char* name) {
    return runtime->threadgroup_variable(key, size, align, name, PC);
}

// Division of an integer by zero, from clang's check of that alone.
void __ubsan_handle_divrem_overflow_abort(void*, ulong, ulong) { runtime->trap(0, PC), give_up(); }
// A shift by at least the bits of the shifted value, likewise.
void __ubsan_handle_shift_out_of_bounds_abort(void*, ulong, ulong) { runtime->trap(1, PC), give_up(); }

bool softmetal_attempt(void (*compute)()) {
    is_attempt = __builtin_setjmp(before_attempt) == 0;
    if (!is_attempt) return false;
    compute();
    is_attempt = false;
    return true;
}

// Conversion to bfloat, which libgcc has from version 13 on: to the nearest, even in the middle.
__attribute__((visibility("hidden"))) bfloat __truncsfbf2(float x) {
    uint bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    const uint rounded = x == x ? bits + 0x7fff + (bits >> 16 & 1) : bits | 1u << 22;
    const ushort upper = ushort(rounded >> 16);
    bfloat result;
    __builtin_memcpy(&result, &upper, sizeof(result));
    return result;
}

// An index that its array does not have, as clang describes it (clang/lib/CodeGen, `EmitCheckTypeDescriptor`).
struct type_description {
    ushort kind;
    ushort info; ///< Of an integer: bit 0 signed, above it the logarithm of its bits.
    char name[];
};
struct index_description {
    const char* file;
    uint line, column;
    const type_description* array;
    const type_description* index;
};
void __ubsan_handle_out_of_bounds(index_description* what, ulong index) {
    // The runtime sees accesses to threadgroup variables themselves, and says which variable it is.
    if (__builtin_strncmp(what->array->name, "'softmetal_", 11) == 0) return;
    const uint unused = 64 - (1u << (what->index->info >> 1) & 127);
    const bool negative = what->index->info & 1;
    runtime->array_index(negative ? long(index << unused) >> unused : long(index), what->array->name, PC);
}

// A pointer that is not aligned for its type, at its use. An access of which the optimizer leaves only some
// components needs less alignment than the whole that the source names.
struct use_description {
    const char* file;
    uint line, column;
    const type_description* type;
    uchar log_alignment;
    uchar use; ///< 1 is a store.
};
void __ubsan_handle_type_mismatch_v1(use_description* what, const void* at) {
    const uint kind = what->use == 1 ? write : read;
    runtime->access(at, 1ul << what->log_alignment, kind | aligned, PC);
}

} // extern "C"
