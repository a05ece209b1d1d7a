// Ways in which Metal kernels are written.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

#define N_SIMDWIDTH 32
#define FOR_UNROLL(x) _Pragma("clang loop unroll(full)") for (x)

typedef struct { half d; uint8_t qs[16]; } block_q4;
struct block_k { union { struct { half d; half dmin; }; half2 dm; }; uint8_t scales[12]; };
constant constexpr static float table[4] = { -1.0f, 0.5f, 1.0f, 2.0f };
constant static float offsets[2] = {1.0f, 2.0f};
static constant uint mask = 0x0f0f;
enum { OP_A = 0, OP_B };

typedef void (im2col_t)(device const float * x, uint3 tgpig [[threadgroup_position_in_grid]]);

template <typename type4x4>
void dequantize(device const block_q4 * xb, short il, thread type4x4 & reg) {
    device const uint16_t * qs = ((device const uint16_t *)xb + 1);
    const float d1 = il ? (xb->d / 16.h) : xb->d;
    float4x4 reg_f;
    for (int i = 0; i < 8; i++) {
        reg_f[i/2][2*(i%2) + 0] = d1 * (qs[i] & mask);
        reg_f[i/2][2*(i%2) + 1] = d1 * (qs[i] >> 8);
    }
    reg = (type4x4) reg_f;
}

static inline float helper(thread const float4 & v) { return v[0] + v[1] + v[2] + v[3]; }
static inline float sum16(const thread half4x4 & m) { float s = 0; for (short i = 0; i < 4; ++i) s += dot(float4(m[i]), float4(1)); return s; }

template <int NR, typename T, void (*dequant)(device const block_q4 *, short, thread half4x4 &)>
kernel void mul(device const char * src0 [[buffer(0)]], device char * dst[[buffer(1)]], constant uint & n[[buffer(2)]],
        threadgroup char * shmem [[threadgroup(0)]], ushort tiitg[[thread_index_in_threadgroup]],
        ushort tiisg[[thread_index_in_simdgroup]], ushort sgitg[[simdgroup_index_in_threadgroup]],
        uint3 tgpig[[threadgroup_position_in_grid]], ushort3 ntg[[threads_per_threadgroup]]) {
    threadgroup T * sa = (threadgroup T *)(shmem);
    threadgroup float2 & first = *(threadgroup float2 *)(shmem + 64);
    device const block_q4 * x = (device const block_q4 *) src0 + tgpig.x;
    float sumf[NR] = {0.f};
    half4x4 temp;
    dequant(x, 0, temp);
    FOR_UNROLL (short i = 0; i < NR; i++) { sumf[i] += sum16(temp) * table[i & 3] + offsets[i & 1]; }
    if (tiitg == 0) { first = float2(1, 2); *((threadgroup T *) shmem) = (T) sumf[0]; sa[1] = 1; }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float4 v = { sumf[0], 1.0f, float(sa[1]), first.x };
    v = select(v, float4(0.0f), isnan(v));
    const auto total = simd_sum(helper(v));
    vec<T, 4> t = vec<T, 4>(v);
    uchar2 b = uchar2{1, 2};
    const short2 q = short2(b);
    if (n > 0 && tiisg == 0 && sgitg == 0) { ((device float *) dst)[tgpig.x * ntg.y] = total + float(t.x) + q.y + sizeof(block_k); }
}
typedef decltype(mul<2, half, dequantize>) mul_t;
template [[host_name("mul_h")]] kernel mul_t mul<2, half, dequantize>;
template [[host_name("mul_f")]] kernel mul_t mul<4, float, dequantize>;

kernel void attr(device float* y [[ buffer(0) ]], uint2 gid [[ thread_position_in_grid ]], uint2 size [[threads_per_grid]],
                 uint simd_size [[threads_per_simdgroup]]) {
    if (any(gid >= size)) return;
    y[gid.x] = fast::exp(-float(gid.x)) + precise::sqrt(2.0f) + metal::max(1.0f, 2.0f) + (gid.x & 1 ? 1.h : 2.h) + simd_size;
}
