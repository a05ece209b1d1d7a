// Operations on corresponding elements of rows: add, mul, scale, silu, swiglu, add bias.
//
// A thread computes four features of one row. Without `vectorized` the strides or offsets are no
// multiples of four, and a row's elements are read one by one.

#include <metal_stdlib>
#include "arguments.h"

using namespace metal;

constant bool vectorized [[function_constant(0)]];

struct Add {
    static float apply(float a, float b, float) { return a + b; }
};
struct Mul {
    static float apply(float a, float b, float) { return a * b; }
};
struct Scale {
    static float apply(float a, float, float factor) { return a * factor; }
};
struct Silu {
    static float apply(float a, float, float) { return a / (1.0f + exp(-a)); }
};
struct SwiGlu {
    static float apply(float a, float b, float) { return a / (1.0f + exp(-a)) * b; }
};

/// The operation on up to four elements.
template <typename Op>
void apply(device float* y, device const float* a, device const float* b, uint count, float factor) {
    if (vectorized && count >= 4) {
        const float4 va = *(device const float4*)a;
        const float4 vb = *(device const float4*)b;
        *(device float4*)y = float4(Op::apply(va.x, vb.x, factor), Op::apply(va.y, vb.y, factor),
                                    Op::apply(va.z, vb.z, factor), Op::apply(va.w, vb.w, factor));
        return;
    }
    for (uint i = 0; i < min(count, 4u); i++) {
        y[i] = Op::apply(a[i], b[i], factor);
    }
}

/// `y = a op b`. An operation of one operand is given it twice.
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
    const ulong row = position.y;
    apply<Op>(y + row * args.y_stride + first, a + row * args.a_stride + first,
              b + row * args.b_stride + first, args.width - first, args.factor);
}

#define INSTANCE_ARGUMENTS                                                                         \
    constant Elementwise&, device float*, device const float*, device const float*, uint2

template [[host_name("add")]] kernel void binary<Add>(INSTANCE_ARGUMENTS);
template [[host_name("mul")]] kernel void binary<Mul>(INSTANCE_ARGUMENTS);
template [[host_name("scale")]] kernel void binary<Scale>(INSTANCE_ARGUMENTS);
template [[host_name("silu")]] kernel void binary<Silu>(INSTANCE_ARGUMENTS);
template [[host_name("swiglu")]] kernel void binary<SwiGlu>(INSTANCE_ARGUMENTS);
