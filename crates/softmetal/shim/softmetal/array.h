// Arrays and uniform values (Metal Shading Language specification, sections 2.12 and 2.14).
#pragma once

namespace metal {

template <class T, size_t N> struct array {
    T elements[N];

    constexpr size_t size() const { return N; }
    constexpr T& operator[](size_t i) { return elements[i]; }
    constexpr const T& operator[](size_t i) const { return elements[i]; }
};

/// A value that is the same for all threads; nothing depends on it here.
template <class T> using uniform = T;

} // namespace metal
