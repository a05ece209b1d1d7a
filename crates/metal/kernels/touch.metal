// A word of every page of a memory, so that the system has mapped the pages when other kernels read them.

#include <metal_stdlib>
#include "arguments.h"

using namespace metal;

/// The words go to `y`, so that no compiler leaves the loads out. A thread reads one page.
kernel void touch_pages(constant TouchPages& args [[buffer(0)]],
                        device uint* y [[buffer(1)]],
                        device const uint* memory [[buffer(2)]],
                        uint page [[thread_position_in_grid]]) {
    if (page >= args.pages) {
        return;
    }
    y[page] = memory[ulong(page) * args.page_words];
}
