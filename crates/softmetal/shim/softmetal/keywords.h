// Address spaces and function qualifiers. Included last: the library's own headers do not know them.
//
// C++ has one address space; which memory a pointer means is seen when it is used. `constant` is
// read-only, so a write through it does not compile.
#pragma once

#define kernel
#define device
#define threadgroup
#define thread
#define constant const
#define double softmetal_double

#define is_function_constant_defined(name) softmetal_defined_##name
