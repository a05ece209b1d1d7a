// Barriers (Metal Shading Language specification, section 6.9).
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

enum memory_order { memory_order_relaxed };

[[clang::always_inline]] SOFTMETAL_CONVERGENT inline void threadgroup_barrier(mem_flags flags) {
    softmetal::softmetal_barrier(1, uint(flags));
}
[[clang::always_inline]] SOFTMETAL_CONVERGENT inline void simdgroup_barrier(mem_flags flags) {
    softmetal::softmetal_barrier(0, uint(flags));
}

} // namespace metal
