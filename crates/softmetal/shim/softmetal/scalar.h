// Scalar types and literals (Metal Shading Language specification, section 2.1).
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef __bf16 bfloat;

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;

constexpr half operator""h(long double x) { return half(x); }
constexpr half operator""h(unsigned long long x) { return half(x); }
// The front end writes `_b` for the suffix `bf`, which C++ does not allow.
constexpr bfloat operator""_b(long double x) { return bfloat(x); }
constexpr bfloat operator""_b(unsigned long long x) { return bfloat(x); }

namespace metal {

using ::bfloat;
using ::half;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::ptrdiff_t;
using ::size_t;
using ::uchar;
using ::uint;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::ulong;
using ::ushort;

} // namespace metal
