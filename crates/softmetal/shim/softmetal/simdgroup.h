// Functions among the lanes of a simdgroup (Metal Shading Language specification, section 6.9.2).
#pragma once

namespace metal {

SOFTMETAL_REDUCTIONS(simd, 32, simd_operation)
SOFTMETAL_SHUFFLES(simd, 32, simd_operation)
SOFTMETAL_VOTES(simd, 32, simd_operation)

} // namespace metal
