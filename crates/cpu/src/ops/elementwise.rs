//! Operations on corresponding elements. The destination holds the first operand on entry.

use super::exp::exp;
use crate::simd::{Simd, per_isa};

per_isa! {
    /// `y += b`.
    pub(crate) fn add(y: &mut [f32], b: &[f32]) = add_body;
}
per_isa! {
    /// `y *= b`.
    pub(crate) fn mul(y: &mut [f32], b: &[f32]) = mul_body;
}
per_isa! {
    /// `y *= factor`.
    pub(crate) fn scale(y: &mut [f32], factor: f32) = scale_body;
}
per_isa! {
    /// `y = y / (1 + exp(-y))`.
    pub(crate) fn silu(y: &mut [f32]) = silu_body;
}
per_isa! {
    /// `gate = silu(gate) * up`.
    pub(crate) fn swiglu(gate: &mut [f32], up: &[f32]) = swiglu_body;
}

#[inline(always)]
fn add_body<S: Simd>(y: &mut [f32], b: &[f32]) {
    for (y, b) in y.iter_mut().zip(b) {
        *y += b;
    }
}

#[inline(always)]
fn mul_body<S: Simd>(y: &mut [f32], b: &[f32]) {
    for (y, b) in y.iter_mut().zip(b) {
        *y *= b;
    }
}

#[inline(always)]
fn scale_body<S: Simd>(y: &mut [f32], factor: f32) {
    for y in y {
        *y *= factor;
    }
}

#[inline(always)]
fn silu_body<S: Simd>(y: &mut [f32]) {
    for y in y {
        *y = silu_of(*y);
    }
}

#[inline(always)]
fn swiglu_body<S: Simd>(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = silu_of(*gate) * up;
    }
}

#[inline(always)]
fn silu_of(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}
