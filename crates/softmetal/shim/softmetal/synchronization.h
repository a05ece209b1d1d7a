// Barriers and fences (Metal Shading Language specification, sections 6.9.1 and 6.15.3).
#pragma once

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
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
constexpr mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }

enum memory_order {
    memory_order_relaxed,
    memory_order_acquire,
    memory_order_release,
    memory_order_acq_rel,
    memory_order_seq_cst,
};
enum thread_scope {
    thread_scope_thread,
    thread_scope_simdgroup,
    thread_scope_threadgroup,
    thread_scope_device,
};

[[clang::always_inline]] SOFTMETAL_CONVERGENT inline void threadgroup_barrier(mem_flags flags) {
    softmetal::softmetal_barrier(1, uint(flags));
}
[[clang::always_inline]] SOFTMETAL_CONVERGENT inline void simdgroup_barrier(mem_flags flags) {
    softmetal::softmetal_barrier(0, uint(flags));
}

/// Orders memory for the processor. The checker takes no order from it: what only a fence orders is
/// reported as a race.
inline void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

} // namespace metal
