// 8x8 matrices spread over a simdgroup (Metal Shading Language specification, sections 2.4 and 6.7).
//
// A lane holds two neighbours of one row, where Apple GPUs have them. Sums run over ascending k in
// float; the hardware's order and rounding are not specified.
#pragma once

namespace metal {

template <class T, int Cols, int Rows = Cols> struct simdgroup_matrix;

namespace softmetal_matrix {

constexpr uint row_of(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
constexpr uint column_of(uint lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }
/// The lane that holds an element; it is the lane's first or second by the column's parity.
constexpr uint lane_of(uint row, uint column) {
    return (row & 4) * 4 + (column & 4) * 2 + row % 4 * 2 + (column / 2 & 1);
}

/// Two factors' elements, as a lane hands them over.
template <class A, class B> struct pair {
    A a[2];
    B b[2];
};

/// Waits for the other lanes: the operation belongs to the whole simdgroup.
SOFTMETAL_SIMD uint meet() {
    return softmetal_lanes::give<softmetal::simd_operation>(uint(0)).self();
}

} // namespace softmetal_matrix

template <class T> struct simdgroup_matrix<T, 8, 8> {
    static_assert(is_same_v<T, float> || is_same_v<T, half> || is_same_v<T, bfloat>,
                  "matrices of a simdgroup are of float, half or bfloat");
    simdgroup_matrix() = default;
    explicit simdgroup_matrix(T diagonal) {
        const uint lane = softmetal_matrix::meet();
        const uint row = softmetal_matrix::row_of(lane), column = softmetal_matrix::column_of(lane);
        elements = vec<T, 2>(row == column ? diagonal : T(0), row == column + 1 ? diagonal : T(0));
    }
    vec<T, 2>& thread_elements() { return elements; }
    const vec<T, 2>& thread_elements() const { return elements; }

  private:
    vec<T, 2> elements;
};

typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int C, int R>
SOFTMETAL_SIMD simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, C, R> m;
    m.thread_elements() = vec<T, 2>(value);
    return m;
}

template <class T>
SOFTMETAL_SIMD void simdgroup_load(simdgroup_matrix<T, 8, 8>& d, const T* source,
                                   ulong elements_per_row = 8, vec<ulong, 2> origin = 0,
                                   bool transpose = false) {
    const uint lane = softmetal_matrix::meet();
    const ulong row = softmetal_matrix::row_of(lane), column = softmetal_matrix::column_of(lane);
    for (int i = 0; i < 2; i++) {
        const ulong x = origin.x + (transpose ? row : column + i);
        const ulong y = origin.y + (transpose ? column + i : row);
        d.thread_elements()[i] = source[y * elements_per_row + x];
    }
}

template <class T>
SOFTMETAL_SIMD void simdgroup_store(simdgroup_matrix<T, 8, 8> a, T* target,
                                    ulong elements_per_row = 8, vec<ulong, 2> origin = 0,
                                    bool transpose = false) {
    const uint lane = softmetal_matrix::meet();
    const ulong row = softmetal_matrix::row_of(lane), column = softmetal_matrix::column_of(lane);
    for (int i = 0; i < 2; i++) {
        const ulong x = origin.x + (transpose ? row : column + i);
        const ulong y = origin.y + (transpose ? column + i : row);
        target[y * elements_per_row + x] = a.thread_elements()[i];
    }
}

/// `d = a * b + c`
template <class D, class A, class B, class C>
SOFTMETAL_SIMD void
simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                              simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
    typedef softmetal_matrix::pair<A, B> pair;
    const vec<A, 2> mine = a.thread_elements();
    const vec<B, 2> other = b.thread_elements();
    auto lanes = softmetal_lanes::give<softmetal::matrix_operation>(
        pair{{mine[0], mine[1]}, {other[0], other[1]}});
    const uint row = softmetal_matrix::row_of(lanes.self());
    const uint column = softmetal_matrix::column_of(lanes.self());
    float sums[2] = {float(c.thread_elements()[0]), float(c.thread_elements()[1])};
    for (uint k = 0; k < 8; k++) {
        const float left = float(lanes.template at<pair>(softmetal_matrix::lane_of(row, k)).a[k % 2]);
        const pair right = lanes.template at<pair>(softmetal_matrix::lane_of(k, column));
        sums[0] += left * float(right.b[0]);
        sums[1] += left * float(right.b[1]);
    }
    d.thread_elements() = vec<D, 2>(D(sums[0]), D(sums[1]));
}

/// `d = a * b`
template <class D, class A, class B>
SOFTMETAL_SIMD void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                       simdgroup_matrix<B, 8, 8> b) {
    simdgroup_matrix<D, 8, 8> zero;
    zero.thread_elements() = vec<D, 2>(D(0));
    simdgroup_multiply_accumulate(d, a, b, zero);
}

template <class T>
SOFTMETAL_SIMD simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a,
                                                   simdgroup_matrix<T, 8, 8> b) {
    simdgroup_matrix<T, 8, 8> d;
    simdgroup_multiply(d, a, b);
    return d;
}

} // namespace metal
