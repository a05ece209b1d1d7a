// Functions among the four lanes of a quadgroup (Metal Shading Language specification, section 6.9.3).
#pragma once

namespace metal {

SOFTMETAL_REDUCTIONS(quad, 4, quad_operation)
SOFTMETAL_SHUFFLES(quad, 4, quad_operation)
SOFTMETAL_VOTES(quad, 4, quad_operation)

#undef SOFTMETAL_REDUCTION
#undef SOFTMETAL_PREFIX
#undef SOFTMETAL_REDUCTIONS
#undef SOFTMETAL_SHUFFLE
#undef SOFTMETAL_SHUFFLES
#undef SOFTMETAL_VOTES

} // namespace metal
