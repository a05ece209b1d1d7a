// Activation functions. `exp` is within 4 units in the last place and the quotient correctly rounded, since fast math is
// off.
#pragma once

template <typename T>
inline T silu(T a) {
    return a / (1.0f + metal::exp(-a));
}

template <typename T>
inline T swiglu(T gate, T up) {
    return silu(gate) * up;
}
