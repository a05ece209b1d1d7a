// Matrices of C columns with R rows (Metal Shading Language specification, sections 2.3 and 6.6).
#pragma once

namespace metal {

template <class T, int C, int R> struct matrix {
    static_assert(is_same_v<T, float> || is_same_v<T, half>, "matrices are of float or half");
    vec<T, R> columns[C];

    constexpr matrix() = default;
    constexpr explicit matrix(T diagonal) : columns{} {
        for (int c = 0; c < C; c++)
            for (int r = 0; r < R; r++) columns[c][r] = c == r ? diagonal : T(0);
    }
    /// By columns, or by elements in their order.
    template <class... V, class = enable_if_t<(sizeof...(V) == C || sizeof...(V) == C * R)>>
    constexpr matrix(V... v) : columns{} {
        if constexpr (sizeof...(V) == C) {
            int c = 0;
            ((columns[c++] = vec<T, R>(v)), ...);
        } else {
            int at = 0;
            ((columns[at / R][at % R] = T(v), at++), ...);
        }
    }
    template <class U> constexpr explicit matrix(const matrix<U, C, R>& m) : columns{} {
        for (int c = 0; c < C; c++) columns[c] = vec<T, R>(m.columns[c]);
    }
    constexpr vec<T, R>& operator[](int c) { return columns[c]; }
    constexpr const vec<T, R>& operator[](int c) const { return columns[c]; }

#define SOFTMETAL_BY_COLUMN(declaration, column)                                                   \
    friend constexpr matrix operator declaration {                                                 \
        matrix m{};                                                                                \
        for (int c = 0; c < C; c++) m[c] = column;                                                 \
        return m;                                                                                  \
    }
    SOFTMETAL_BY_COLUMN(+(const matrix& a, const matrix& b), a[c] + b[c])
    SOFTMETAL_BY_COLUMN(-(const matrix& a, const matrix& b), a[c] - b[c])
    SOFTMETAL_BY_COLUMN(-(const matrix& a), -a[c])
    SOFTMETAL_BY_COLUMN(*(const matrix& a, T s), a[c] * s)
    SOFTMETAL_BY_COLUMN(*(T s, const matrix& a), s * a[c])
#undef SOFTMETAL_BY_COLUMN
    friend constexpr vec<T, R> operator*(const matrix& a, vec<T, C> x) {
        vec<T, R> y = a[0] * x[0];
        for (int c = 1; c < C; c++) y += a[c] * x[c];
        return y;
    }
    friend constexpr vec<T, C> operator*(vec<T, R> x, const matrix& a) {
        vec<T, C> y;
        for (int c = 0; c < C; c++) y[c] = dot(x, a[c]);
        return y;
    }
    template <int K>
    friend constexpr matrix<T, K, R> operator*(const matrix& a, const matrix<T, K, C>& b) {
        matrix<T, K, R> m{};
        for (int k = 0; k < K; k++) m[k] = a * b[k];
        return m;
    }
    friend constexpr matrix& operator+=(matrix& a, const matrix& b) { return a = a + b; }
    friend constexpr matrix& operator-=(matrix& a, const matrix& b) { return a = a - b; }
    friend constexpr matrix& operator*=(matrix& a, T s) { return a = a * s; }
    friend constexpr matrix& operator*=(matrix& a, const matrix<T, C, C>& b) { return a = a * b; }
    friend constexpr bool operator==(const matrix& a, const matrix& b) {
        for (int c = 0; c < C; c++)
            if (!all(a[c] == b[c])) return false;
        return true;
    }
    friend constexpr bool operator!=(const matrix& a, const matrix& b) { return !(a == b); }
};

template <class T, int C, int R> constexpr matrix<T, R, C> transpose(const matrix<T, C, R>& a) {
    matrix<T, R, C> m{};
    for (int c = 0; c < C; c++)
        for (int r = 0; r < R; r++) m[r][c] = a[c][r];
    return m;
}

template <class T> constexpr T determinant(const matrix<T, 2, 2>& a) {
    return a[0][0] * a[1][1] - a[1][0] * a[0][1];
}
template <class T> constexpr T determinant(const matrix<T, 3, 3>& a) {
    return dot(a[0], cross(a[1], a[2]));
}
template <class T> constexpr T determinant(const matrix<T, 4, 4>& a) {
    // By the minors of the upper two rows and of the lower two.
    auto upper = [&](int i, int j) { return a[i][0] * a[j][1] - a[j][0] * a[i][1]; };
    auto lower = [&](int i, int j) { return a[i][2] * a[j][3] - a[j][2] * a[i][3]; };
    return upper(0, 1) * lower(2, 3) - upper(0, 2) * lower(1, 3) + upper(0, 3) * lower(1, 2) +
           upper(1, 2) * lower(0, 3) - upper(1, 3) * lower(0, 2) + upper(2, 3) * lower(0, 1);
}

#define SOFTMETAL_MATRIX_NAMES(T, R)                                                               \
    typedef matrix<T, 2, R> T##2x##R;                                                              \
    typedef matrix<T, 3, R> T##3x##R;                                                              \
    typedef matrix<T, 4, R> T##4x##R;
#define SOFTMETAL_MATRICES(M) M(half, 2) M(half, 3) M(half, 4) M(float, 2) M(float, 3) M(float, 4)
SOFTMETAL_MATRICES(SOFTMETAL_MATRIX_NAMES)

} // namespace metal

#define SOFTMETAL_GLOBAL(T, R)                                                                     \
    using metal::T##2x##R;                                                                         \
    using metal::T##3x##R;                                                                         \
    using metal::T##4x##R;
SOFTMETAL_MATRICES(SOFTMETAL_GLOBAL)
#undef SOFTMETAL_MATRIX_NAMES
#undef SOFTMETAL_MATRICES
#undef SOFTMETAL_GLOBAL
