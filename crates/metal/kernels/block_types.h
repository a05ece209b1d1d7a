// The weight types by number, for kernels whose weights are of several types.
#pragma once

#include "blocks.h"

/// `work.run<Block, Outputs>()` with the reader of a type and the outputs that a simdgroup computes at once, which are those
/// of `matvec.metal`. A type is a function constant, so that a compiled kernel has only what it needs. Numbers are GGUF's.
template <typename Work>
inline void run_with(uint type, thread Work& work) {
    switch (type) {
        case 0: work.template run<F32, 4>(); break;
        case 1: work.template run<F16, 4>(); break;
        case 2: work.template run<Q4_0, 4>(); break;
        case 3: work.template run<Q4_1, 4>(); break;
        case 6: work.template run<Q5_0, 4>(); break;
        case 7: work.template run<Q5_1, 4>(); break;
        case 8: work.template run<Q8_0, 4>(); break;
        case 12: work.template run<Q4_K, 2>(); break;
        case 13: work.template run<Q5_K, 2>(); break;
        case 14: work.template run<Q6_K, 2>(); break;
        case 30: work.template run<BF16, 4>(); break;
    }
}
