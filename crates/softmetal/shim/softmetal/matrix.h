// Matrices of C columns with R rows (Metal Shading Language specification, section 2.3).
#pragma once

namespace metal {

template <class T, int C, int R> struct matrix {
    vec<T, R> columns[C];

    constexpr matrix() = default;
    constexpr explicit matrix(T diagonal) : columns{} {
        for (int c = 0; c < C; c++)
            for (int r = 0; r < R; r++) columns[c][r] = c == r ? diagonal : T(0);
    }
    template <class... V, class = enable_if_t<sizeof...(V) == C && (C > 1)>>
    constexpr matrix(V... v) : columns{vec<T, R>(v)...} {}
    template <class U> constexpr explicit matrix(const matrix<U, C, R>& m) : columns{} {
        for (int c = 0; c < C; c++) columns[c] = vec<T, R>(m.columns[c]);
    }
    constexpr vec<T, R>& operator[](int c) { return columns[c]; }
    constexpr const vec<T, R>& operator[](int c) const { return columns[c]; }

    friend constexpr matrix operator+(const matrix& a, const matrix& b) {
        matrix m{};
        for (int c = 0; c < C; c++) m[c] = a[c] + b[c];
        return m;
    }
    friend constexpr matrix operator-(const matrix& a, const matrix& b) {
        matrix m{};
        for (int c = 0; c < C; c++) m[c] = a[c] - b[c];
        return m;
    }
    friend constexpr matrix operator*(const matrix& a, T s) {
        matrix m{};
        for (int c = 0; c < C; c++) m[c] = a[c] * s;
        return m;
    }
    friend constexpr matrix operator*(T s, const matrix& a) { return a * s; }
    friend constexpr vec<T, R> operator*(const matrix& a, vec<T, C> x) {
        vec<T, R> y(T(0));
        for (int c = 0; c < C; c++) y += a[c] * x[c];
        return y;
    }
    template <int K>
    friend constexpr matrix<T, K, R> operator*(const matrix& a, const matrix<T, K, C>& b) {
        matrix<T, K, R> m{};
        for (int k = 0; k < K; k++) m[k] = a * b[k];
        return m;
    }
};

template <class T, int C, int R> constexpr matrix<T, R, C> transpose(const matrix<T, C, R>& a) {
    matrix<T, R, C> m{};
    for (int c = 0; c < C; c++)
        for (int r = 0; r < R; r++) m[r][c] = a[c][r];
    return m;
}

} // namespace metal

#define SOFTMETAL_MATRICES(T, R)                                                                   \
    typedef metal::matrix<T, 2, R> T##2x##R;                                                       \
    typedef metal::matrix<T, 3, R> T##3x##R;                                                       \
    typedef metal::matrix<T, 4, R> T##4x##R;
SOFTMETAL_MATRICES(half, 2)
SOFTMETAL_MATRICES(half, 3)
SOFTMETAL_MATRICES(half, 4)
SOFTMETAL_MATRICES(float, 2)
SOFTMETAL_MATRICES(float, 3)
SOFTMETAL_MATRICES(float, 4)
#undef SOFTMETAL_MATRICES
