// Operations on corresponding elements of rows: add, mul, scale, silu, swiglu, add bias.

#include <metal_stdlib>
#include "activations.h"
#include "arguments.h"
#include "vectors.h"

using namespace metal;

struct Add {
    static float4 apply(float4 a, float4 b, float) { return a + b; }
};
struct Mul {
    static float4 apply(float4 a, float4 b, float) { return a * b; }
};
struct Scale {
    static float4 apply(float4 a, float4, float factor) { return a * factor; }
};
struct Silu {
    static float4 apply(float4 a, float4, float) { return silu(a); }
};
struct SwiGlu {
    static float4 apply(float4 a, float4 b, float) { return swiglu(a, b); }
};

/// `y = a op b`; `y` may be an operand. An operation of one operand is given it twice. A thread computes four features
/// of one row.
template <typename Op>
kernel void binary(constant Elementwise& args [[buffer(0)]],
                   device float* y [[buffer(1)]],
                   device const float* a [[buffer(2)]],
                   device const float* b [[buffer(3)]],
                   uint2 position [[thread_position_in_grid]]) {
    const uint first = 4 * position.x;
    if (first >= args.width) {
        return;
    }
    const uint left = args.width - first;
    const ulong row = position.y;
    const float4 va = vector_at(a + row * args.a_stride + first, left);
    const float4 vb = vector_at(b + row * args.b_stride + first, left);
    put_vector(y + row * args.y_stride + first, Op::apply(va, vb, args.factor), left);
}

typedef decltype(binary<Add>) binary_kernel;
template [[host_name("add")]] kernel binary_kernel binary<Add>;
template [[host_name("mul")]] kernel binary_kernel binary<Mul>;
template [[host_name("scale")]] kernel binary_kernel binary<Scale>;
template [[host_name("silu")]] kernel binary_kernel binary<Silu>;
template [[host_name("swiglu")]] kernel binary_kernel binary<SwiGlu>;
