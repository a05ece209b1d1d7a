//! Arithmetic of half and bfloat, against arithmetic in double that is rounded after each operation.

use crate::run::{Case, LANES, Words, check, check_words};

/// A small floating-point type.
#[derive(Clone, Copy)]
struct Small {
    name: &'static str,
    /// Bits of the fraction, and exponent of the smallest normal number.
    fraction: i32,
    least: i32,
    /// Exponent of the largest numbers.
    most: i32,
}

const HALF: Small = Small {
    name: "half",
    fraction: 10,
    least: -14,
    most: 15,
};
const BFLOAT: Small = Small {
    name: "bfloat",
    fraction: 7,
    least: -126,
    most: 127,
};

impl Small {
    /// The nearest number of the type, that with an even fraction in the middle.
    fn round(self, x: f64) -> f64 {
        if x == 0.0 || !x.is_finite() {
            return x;
        }
        let exponent = (x.abs().log2().floor() as i32).max(self.least);
        let unit = f64::from(exponent - self.fraction).exp2();
        let rounded = (x / unit).round_ties_even() * unit;
        if rounded.abs() >= f64::from(self.most + 1).exp2() {
            return f64::INFINITY.copysign(x);
        }
        rounded
    }

    fn bits(self, x: f64) -> u64 {
        let rounded = self.round(x);
        let sign = u64::from(rounded.is_sign_negative()) << 15;
        let unit = f64::from(self.least - self.fraction).exp2();
        if rounded.is_infinite() {
            return sign | ((self.most - self.least + 2) as u64) << self.fraction;
        }
        if rounded.abs() < f64::from(self.least).exp2() {
            return sign | (rounded.abs() / unit) as u64;
        }
        let exponent = (rounded.abs().log2().floor() as i32).max(self.least);
        let fraction = (rounded.abs() / f64::from(exponent - self.fraction).exp2()) as u64;
        sign + (((exponent - self.least) as u64) << self.fraction) + fraction
    }
}

/// Three operands per lane, in single precision.
fn operands(lane: usize) -> [f64; 3] {
    let number = |salt: u64| {
        let word = (lane as u64 * 3 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        f64::from((word as f32 - 8_388_608.0) / 65536.0)
    };
    [number(1), number(2), number(3)]
}

type Formula = (&'static str, fn(Small, [f64; 3]) -> f64);

const FORMULAS: &[Formula] = &[
    ("A + B", |t, [a, b, _]| t.round(a + b)),
    ("A - B", |t, [a, b, _]| t.round(a - b)),
    ("A * B", |t, [a, b, _]| t.round(a * b)),
    ("A / B", |t, [a, b, _]| t.round(a / b)),
    ("A * B + C", |t, [a, b, c]| t.round(t.round(a * b) + c)),
    ("A + B + C - A", |t, [a, b, c]| {
        t.round(t.round(t.round(a + b) + c) - a)
    }),
    ("A * 2 - B * C", |t, [a, b, c]| {
        t.round(t.round(a * 2.0) - t.round(b * c))
    }),
];

fn declare(t: Small) -> String {
    let name = t.name;
    let values = (0..LANES).flat_map(operands);
    let values: Vec<_> = values.map(|value| format!("{value:?}")).collect();
    format!(
        "const float values_{name}[] = {{{}}};
const {name} a_{name} = {name}(values_{name}[3 * lane]), b_{name} = {name}(values_{name}[3 * lane + 1]),
    c_{name} = {name}(values_{name}[3 * lane + 2]);
const vec<{name}, 4> av_{name}(a_{name}), bv_{name}(b_{name}), cv_{name}(c_{name});\n",
        values.join(", ")
    )
}

#[test]
fn every_operation_rounds() {
    let mut cases = Vec::new();
    for t in [HALF, BFLOAT] {
        for (msl, value) in FORMULAS {
            for mark in ["", "v"] {
                let mut text = (*msl).to_owned();
                for name in ["A", "B", "C"] {
                    let operand = format!("{}{mark}_{}", name.to_lowercase(), t.name);
                    text = text.replace(name, &operand);
                }
                let element = if mark.is_empty() { "" } else { "[3]" };
                // The number 2 is of the type, as it is for a vector.
                text = text.replace("* 2", &format!("* {}(2)", t.name));
                let bits = format!("as_type<ushort>({}(({text}){element}))", t.name);
                cases.push(Words::new(bits, |lane| {
                    let rounded = operands(lane).map(|operand| t.round(operand));
                    t.bits(value(t, rounded))
                }));
            }
        }
        cases.push(Words::new(
            format!("as_type<ushort>({}(values_{}[3 * lane]))", t.name, t.name),
            |lane| t.bits(operands(lane)[0]),
        ));
    }
    let before = [HALF, BFLOAT].map(declare).concat();
    check_words("rounding.metal", &before, &cases);
}

#[test]
fn fused_operations_round_once() {
    // Products have 22 bits, and the exponents are near: in double the sum is exact.
    let fused = |lane| {
        let [a, b, c] = operands(lane).map(|operand| HALF.round(operand));
        HALF.bits(a * b + c)
    };
    let cases = [
        Words::new("as_type<ushort>(fma(a_half, b_half, c_half))", fused),
        Words::new("as_type<ushort>(fma(av_half, b_half, cv_half).w)", fused),
    ];
    check_words("fused.metal", &declare(HALF), &cases);
}

macro_rules! cases {
    ($($msl:literal => $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: Box::new(|_| $expected as f64) },)*]
    };
}

#[test]
fn literals_and_neighbours() {
    check(
        "literals.metal",
        "#define EIGHTH 0.125bf\nconst half tiny = as_type<half>(ushort(1)); const float third = 1.0 / 3.0;",
        cases![
            "1.5h + 2.5H" => 4.0,
            "0x1.8p3h" => 12.0,
            "1.00390625bf" => 1.0,
            "EIGHTH" => 0.125,
            "sizeof(1.0bf) * 100 + sizeof(1.0h) * 10 + sizeof(1.0)" => 224.0,
            // As a double it would differ from the float of the same digits.
            "third * 3.0 == 1.0" => 1.0,
            "0.1 == 0.1f" => 1.0,
            "nextafter(1.0h, 2.0h)" => 1.0 + 1.0 / 1024.0,
            "nextafter(1.0h, -HUGE_VALH)" => 1.0 - 1.0 / 2048.0,
            "nextafter(0.0h, -1.0h)" => -1.0 / 16_777_216.0,
            "nextafter(tiny, 0.0h)" => 0.0,
            "nextafter(HALF_MAX, HUGE_VALH)" => f64::INFINITY,
            "nextafter(1.0f, 0.0f)" => f64::from(1f32.next_down()),
            "nextafter(float3(-1.0f), 0.0f).z" => f64::from((-1f32).next_up()),
            "nextafter(NAN, 1.0f)" => f64::NAN,
            "half(65519.0f)" => 65504.0,
            "half(65520.0f)" => f64::INFINITY,
            "half(3e-8f)" => 1.0 / 33_554_432.0 * 2.0,
            "half(2.9e-8f)" => 0.0,
            "fract(-tiny)" => 1.0 - 1.0 / 2048.0,
        ],
        0.0,
    );
}
