// Stored keys turned by one rotation, in place and in their format: decoded, turned, encoded again.

#include <metal_stdlib>
#include "arguments.h"
#include "kv_cells.h"

using namespace metal;

constant bool interleaved [[function_constant(0)]];

/// Cells of `Element`; a thread turns one pair of features of a head. `turns` are the pairs' cosines and sines.
template <typename Element>
kernel void kv_rotate(constant KvRotate& args [[buffer(0)]],
                      device uchar* keys [[buffer(1)]],
                      constant float2* turns [[buffer(2)]],
                      uint3 place [[thread_position_in_grid]]) {
    const uint pair = place.x;
    if (pair >= args.pairs) {
        return;
    }
    device Element* cell = (device Element*)(keys + ulong(place.z) * args.cell_bytes);
    device Element* head = cell + place.y * args.head_dim;
    const uint first = interleaved ? 2 * pair : pair;
    const uint second = interleaved ? first + 1 : first + args.pairs;
    const float a = float(head[first]);
    const float b = float(head[second]);
    const float2 turn = turns[pair];
    head[first] = Element(a * turn.x - b * turn.y);
    head[second] = Element(a * turn.y + b * turn.x);
}

typedef decltype(kv_rotate<float>) kv_rotate_kernel;
template [[host_name("kv_rotate_f32")]] kernel kv_rotate_kernel kv_rotate<float>;
template [[host_name("kv_rotate_f16")]] kernel kv_rotate_kernel kv_rotate<half>;

/// Most blocks of a head. Loops are unrolled for all, so that an array is registers.
constant constexpr uint MOST_BLOCKS = 16;

/// Feature `i` of a head after the rotation.
float turned(device const uchar* head, uint i, uint pairs, constant float2* turns) {
    const float x = KvQ8_0::at(head, i);
    if (i >= 2 * pairs) {
        return x;
    }
    const bool is_second = interleaved ? i % 2 == 1 : i >= pairs;
    const uint distance = interleaved ? 1 : pairs;
    const float2 turn = turns[interleaved ? i / 2 : i % pairs];
    const float other = KvQ8_0::at(head, is_second ? i - distance : i + distance);
    return is_second ? other * turn.y + x * turn.x : x * turn.x - other * turn.y;
}

/// Cells of `Q8_0` blocks; a simdgroup turns a head, a lane one feature of each block. Pairs are in two blocks, so all
/// are read before one is written; blocks without a rotated feature keep their bytes. The grid is 32 wide.
kernel void kv_rotate_q8_0(constant KvRotate& args [[buffer(0)]],
                           device uchar* keys [[buffer(1)]],
                           constant float2* turns [[buffer(2)]],
                           uint3 place [[thread_position_in_grid]]) {
    const uint lane = place.x;
    device uchar* head =
        keys + ulong(place.z) * args.cell_bytes + KvQ8_0::bytes(place.y * args.head_dim);
    const uint blocks = (2 * args.pairs + 31) / 32;
    float x[MOST_BLOCKS];
#pragma clang loop unroll(full)
    for (uint block = 0; block < MOST_BLOCKS && block < blocks; block++) {
        x[block] = turned(head, 32 * block + lane, args.pairs, turns);
    }
    simdgroup_barrier(mem_flags::mem_device);
#pragma clang loop unroll(full)
    for (uint block = 0; block < MOST_BLOCKS && block < blocks; block++) {
        KvQ8_0::put_block(head + KvQ8_0::bytes(32 * block), lane, x[block]);
    }
}
