// 8x8 matrices spread over a simdgroup (Metal Shading Language specification, sections 2.4 and 6.7).
//
// Eight products are summed over ascending k in float, and then added; the hardware's order and rounding
// are not specified.
#pragma once

namespace metal {

template <class T, int Cols, int Rows = Cols> struct simdgroup_matrix;

namespace softmetal_matrix {

using softmetal::column_of;
using softmetal::row_of;

/// Waits for the other lanes: the operation belongs to the whole simdgroup.
SOFTMETAL_SIMD uint meet() {
    return softmetal_lanes::give<softmetal::meeting>(uint(0)).self();
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

/// `d = a * b + c`. The specification has no constant operands, though none but `d` changes.
template <class D, class A, class B, class C>
SOFTMETAL_SIMD void
simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8>& a,
                              simdgroup_matrix<B, 8, 8>& b, simdgroup_matrix<C, 8, 8>& c) {
    // Every element of the smaller types is a float.
    const vec<float, 2> left = vec<float, 2>(a.thread_elements()), right = vec<float, 2>(b.thread_elements());
    auto lanes = softmetal_lanes::give<softmetal::matrix_operation>(
        softmetal::matrix_pair{{left[0], left[1]}, {right[0], right[1]}});
    if (!lanes.all->has_result) softmetal::softmetal_multiply(lanes.all);
    const auto& products = lanes.all->products[softmetal_matrix::row_of(lanes.self())];
    const uint column = softmetal_matrix::column_of(lanes.self());
    const vec<float, 2> sums = vec<float, 2>(c.thread_elements()) + vec<float, 2>(products[column], products[column + 1]);
    d.thread_elements() = vec<D, 2>(sums);
}

/// `d = a * b`
template <class D, class A, class B>
SOFTMETAL_SIMD void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8>& a,
                                       simdgroup_matrix<B, 8, 8>& b) {
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
