//! Integer functions and operators of all integer types, against arithmetic in 128 bits.

use std::fmt::Write;

use crate::run::{LANES, Words, check_words};

/// An integer type of MSL.
#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    bits: u32,
    signed: bool,
}

const fn ty(name: &'static str, bits: u32, signed: bool) -> Type {
    Type { name, bits, signed }
}

const TYPES: [Type; 8] = [
    ty("char", 8, true),
    ty("uchar", 8, false),
    ty("short", 16, true),
    ty("ushort", 16, false),
    ty("int", 32, true),
    ty("uint", 32, false),
    ty("long", 64, true),
    ty("ulong", 64, false),
];

impl Type {
    /// The lower bits of a value, without sign.
    fn low(self, value: i128) -> u128 {
        value as u128 & ((1 << self.bits) - 1)
    }

    /// The value that the type holds after truncation.
    fn wrap(self, value: i128) -> i128 {
        let low = self.low(value) as i128;
        let negative = self.signed && low >> (self.bits - 1) == 1;
        if negative {
            low - (1 << self.bits)
        } else {
            low
        }
    }

    fn max(self) -> i128 {
        (1 << (self.bits - u32::from(self.signed))) - 1
    }

    fn min(self) -> i128 {
        if self.signed { -self.max() - 1 } else { 0 }
    }

    /// The operands of a lane: every pair of edges, then a mixture.
    fn operands(self, lane: usize) -> [i128; 3] {
        let edges = [0, 1, self.min(), self.max(), self.wrap(-1)];
        let mixed = |salt: u64| {
            let word = (lane as u64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.wrap(i128::from(word >> (word % 29)))
        };
        let third = if lane.is_multiple_of(2) {
            mixed(300)
        } else {
            edges[lane % 5]
        };
        match lane {
            0..25 => [edges[lane % 5], edges[lane / 5], third],
            _ => [mixed(100), mixed(200), third],
        }
    }
}

type Function = (&'static str, fn(Type, [i128; 3]) -> i128);

/// Bits of a field that fits into the type.
fn field(t: Type, c: i128) -> (u32, u32) {
    let offset = (c.rem_euclid(i128::from(t.bits))) as u32;
    (offset, (t.bits - offset).min(5))
}

/// The upper half of a product, by parts: 128 bits do not hold that of two `ulong`.
fn mulhi(t: Type, a: i128, b: i128) -> i128 {
    let half = 1 << 32;
    let (a1, a0) = (a.div_euclid(half), a.rem_euclid(half));
    // a1 * b * 2^32 + a0 * b, shifted
    let middle = a1 * b + (a0 * b).div_euclid(half);
    match t.bits {
        64 => middle.div_euclid(half),
        bits => (a * b).div_euclid(1 << bits),
    }
}

const FUNCTIONS: &[Function] = &[
    ("abs(A)", |_, [a, ..]| a.abs()),
    ("addsat(A, B)", |t, [a, b, _]| {
        (a + b).clamp(t.min(), t.max())
    }),
    ("subsat(A, B)", |t, [a, b, _]| {
        (a - b).clamp(t.min(), t.max())
    }),
    ("hadd(A, B)", |_, [a, b, _]| (a + b).div_euclid(2)),
    ("rhadd(A, B)", |_, [a, b, _]| (a + b + 1).div_euclid(2)),
    ("mulhi(A, B)", |t, [a, b, _]| mulhi(t, a, b)),
    ("madhi(A, B, C)", |t, [a, b, c]| mulhi(t, a, b) + c),
    ("madsat(A, B, C)", |t, [a, b, c]| {
        let product = a.checked_mul(b).unwrap_or(i128::MAX / 2);
        (product + c).clamp(t.min(), t.max())
    }),
    ("max(A, B)", |_, [a, b, _]| a.max(b)),
    ("min(A, B)", |_, [a, b, _]| a.min(b)),
    ("max3(A, B, C)", |_, all| all.into_iter().max().unwrap()),
    ("min3(A, B, C)", |_, all| all.into_iter().min().unwrap()),
    ("median3(A, B, C)", |_, mut all| {
        all.sort_unstable();
        all[1]
    }),
    ("clamp(A, min(B, C), max(B, C))", |_, [a, b, c]| {
        a.clamp(b.min(c), b.max(c))
    }),
    (
        "select(A, B, C > A)",
        |_, [a, b, c]| if c > a { b } else { a },
    ),
    ("popcount(A)", |t, [a, ..]| t.low(a).count_ones().into()),
    ("clz(A)", |t, [a, ..]| {
        (t.low(a).leading_zeros() + t.bits - 128).into()
    }),
    ("ctz(A)", |t, [a, ..]| {
        t.low(a).trailing_zeros().min(t.bits).into()
    }),
    ("reverse_bits(A)", |t, [a, ..]| {
        (t.low(a).reverse_bits() >> (128 - t.bits)) as i128
    }),
    ("rotate(A, B)", |t, [a, b, _]| {
        let by = b.rem_euclid(i128::from(t.bits)) as u32;
        let moved = (0..t.bits).filter(|&bit| t.low(a) >> bit & 1 == 1);
        moved.map(|bit| 1 << ((bit + by) % t.bits)).sum()
    }),
];

/// Operators, of vectors: those of scalars are C++'s.
const OPERATORS: &[Function] = &[
    ("A + B", |_, [a, b, _]| a + b),
    ("A - B", |_, [a, b, _]| a - b),
    ("A * B", |_, [a, b, _]| a.wrapping_mul(b)),
    ("A / 7", |_, [a, ..]| a / 7),
    ("A % 7", |_, [a, ..]| a % 7),
    ("A & B", |_, [a, b, _]| a & b),
    ("A | B", |_, [a, b, _]| a | b),
    ("A ^ B", |_, [a, b, _]| a ^ b),
    ("A << C", |t, [a, _, c]| {
        a.wrapping_mul(1 << c.rem_euclid(i128::from(t.bits)))
    }),
    ("A >> C", |t, [a, _, c]| {
        a.div_euclid(1 << c.rem_euclid(i128::from(t.bits)))
    }),
    ("~A", |_, [a, ..]| -a - 1),
    ("-A", |_, [a, ..]| -a),
    ("A == B", |_, [a, b, _]| (a == b).into()),
    ("A != B", |_, [a, b, _]| (a != b).into()),
    ("A < B", |_, [a, b, _]| (a < b).into()),
    ("A <= B", |_, [a, b, _]| (a <= b).into()),
    ("A > B", |_, [a, b, _]| (a > b).into()),
    ("A >= B", |_, [a, b, _]| (a >= b).into()),
    ("A && B", |_, [a, b, _]| (a != 0 && b != 0).into()),
    ("A || B", |_, [a, b, _]| (a != 0 || b != 0).into()),
    ("!A", |_, [a, ..]| (a == 0).into()),
];

/// Declares `a_T`, `b_T` and `c_T` with a lane's operands, and vectors `av_T` and so on that have them last.
fn declare(t: Type) -> String {
    let mut text = String::new();
    for (operand, name) in ["a", "b", "c"].iter().enumerate() {
        let ty = t.name;
        let _ = write!(text, "const {ty} {name}s_{ty}[] = {{");
        for lane in 0..LANES {
            let _ = write!(text, "{ty}({}ul), ", t.operands(lane)[operand] as u64);
        }
        let _ = writeln!(
            text,
            "}};\nconst {ty} {name}_{ty} = {name}s_{ty}[lane]; const vec<{ty}, 3> {name}v_{ty}(1, 2, {name}_{ty});"
        );
    }
    text
}

/// A function applied to the operands, as scalars or as vectors.
fn case(t: Type, (msl, value): Function, vector: bool) -> Words {
    let mark = if vector { "v" } else { "" };
    let mut text = msl.to_owned();
    for name in ["A", "B", "C"] {
        let operand = format!("{}{mark}_{}", name.to_lowercase(), t.name);
        text = text.replace(name, &operand);
    }
    if vector {
        text = format!("({text})[2]");
    }
    Words::new(text, |lane| {
        t.wrap(value(t, t.operands(lane))) as i64 as u64
    })
}

#[test]
fn functions_of_every_type() {
    let mut cases = Vec::new();
    for t in TYPES {
        cases.extend(FUNCTIONS.iter().map(|&function| case(t, function, false)));
        let name = t.name;
        cases.push(Words::new(format!("absdiff(a_{name}, b_{name})"), |lane| {
            let [a, b, _] = t.operands(lane);
            (a - b).unsigned_abs() as u64
        }));
    }
    let before: String = TYPES.map(declare).concat();
    check_words("integers.metal", &before, &cases);
}

#[test]
fn functions_and_operators_of_vectors() {
    let types = [TYPES[1], TYPES[4], TYPES[6]];
    let mut cases = Vec::new();
    for t in types {
        let all = FUNCTIONS.iter().chain(OPERATORS);
        cases.extend(all.map(|&function| case(t, function, true)));
    }
    let before: String = types.map(declare).concat();
    check_words("integer_vectors.metal", &before, &cases);
}

#[test]
fn fields_of_bits() {
    let mut cases = Vec::new();
    for t in TYPES {
        let name = t.name;
        let bits = t.bits;
        let offset = format!("uint(lane % {bits})");
        let count = format!("min(uint(5), uint({bits} - lane % {bits}))");
        let low = |lane: usize| field(t, lane as i128);
        cases.push(Words::new(
            format!("extract_bits(a_{name}, {offset}, {count})"),
            |lane| {
                let (offset, count) = low(lane);
                let small = Type { bits: count, ..t };
                small.wrap(t.operands(lane)[0] >> offset) as i64 as u64
            },
        ));
        cases.push(Words::new(
            format!("insert_bits(a_{name}, b_{name}, {offset}, {count})"),
            |lane| {
                let (offset, count) = low(lane);
                let [a, b, _] = t.operands(lane);
                let bit = |from: i128, at: u32| (from >> at & 1) << at;
                let inside = |at: u32| (offset..offset + count).contains(&at);
                let bits = (0..t.bits).map(|at| match inside(at) {
                    true => bit(b << offset, at),
                    false => bit(a, at),
                });
                t.wrap(bits.sum()) as i64 as u64
            },
        ));
        cases.push(Words::new(format!("extract_bits(a_{name}, 0u, 0u)"), |_| 0));
        cases.push(Words::new(
            format!("extract_bits(av_{name}, 0u, {bits}u)[2]"),
            |lane| t.operands(lane)[0] as i64 as u64,
        ));
        cases.push(Words::new(
            format!("insert_bits(av_{name}, bv_{name}, 0u, {bits}u)[2]"),
            |lane| t.operands(lane)[1] as i64 as u64,
        ));
    }
    let before: String = TYPES.map(declare).concat();
    check_words("fields.metal", &before, &cases);
}

#[test]
fn products_of_24_bits() {
    let mut cases = Vec::new();
    for t in [TYPES[4], TYPES[5]] {
        let small = Type { bits: 24, ..t };
        let product = |[a, b, _]: [i128; 3]| small.wrap(a) * small.wrap(b);
        let name = t.name;
        cases.push(Words::new(format!("mul24(a_{name}, b_{name})"), |lane| {
            t.wrap(product(t.operands(lane))) as i64 as u64
        }));
        cases.push(Words::new(
            format!("mad24(av_{name}, b_{name}, c_{name})[2]"),
            |lane| {
                let operands = t.operands(lane);
                t.wrap(product(operands) + operands[2]) as i64 as u64
            },
        ));
    }
    let before: String = [TYPES[4], TYPES[5]].map(declare).concat();
    check_words("products24.metal", &before, &cases);
}

#[test]
fn overflow_wraps_and_conversions_saturate() {
    let before = "const int most = INT_MAX - int(lane) + int(lane); const float big = 1e20f + x, nan = NAN + x;";
    let cases = [
        Words::new("most + 1", |_| i32::MIN as u64),
        Words::new("(most + 1 < most)", |_| 1),
        Words::new("most * 2", |_| -2i64 as u64),
        Words::new("int(big)", |_| i32::MAX as u64),
        Words::new("int(-big)", |_| i32::MIN as i64 as u64),
        Words::new("int(nan)", |_| 0),
        Words::new("uint(-big)", |_| 0),
        Words::new("uchar(big)", |_| 255),
        Words::new("int2(big, -1.9f).y", |_| -1i64 as u64),
        Words::new("short4(float4(big)).w", |_| 32767),
    ];
    check_words("overflow.metal", before, &cases);
}
