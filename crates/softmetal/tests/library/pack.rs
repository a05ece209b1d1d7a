//! Vectors of normalized integers.

use crate::run::{LANES, Words, check_words};

/// A byte or word per lane and component, with all edges among them.
fn raw(lane: usize, component: u32, bits: u32) -> u64 {
    let largest = (1u64 << bits) - 1;
    match lane {
        0 => 0,
        1 => largest,
        2 => 1 << (bits - 1),
        3 => (1 << (bits - 1)) - 1,
        _ => (lane as u64 * 2_654_435_761 + 40_503 * u64::from(component)) >> 3 & largest,
    }
}

/// An integer with the components of a lane.
fn packed(lane: usize, bits: u32) -> u64 {
    (0..32 / bits)
        .map(|component| raw(lane, component, bits) << (component * bits))
        .sum()
}

fn signed(raw: u64, bits: u32) -> i64 {
    (raw as i64) << (64 - bits) >> (64 - bits)
}

/// The number that an integer stands for.
fn number(raw: u64, bits: u32, is_signed: bool) -> f32 {
    match is_signed {
        false => (raw as f64 / ((1u64 << bits) - 1) as f64) as f32,
        true => {
            let largest = ((1u64 << (bits - 1)) - 1) as f64;
            (signed(raw, bits) as f64 / largest).max(-1.0) as f32
        }
    }
}

fn declare(bits: u32) -> String {
    let values: Vec<_> = (0..LANES)
        .map(|lane| format!("{:#x}", packed(lane, bits)))
        .collect();
    format!(
        "const uint packed{bits}s[] = {{{}}}; const uint packed{bits} = packed{bits}s[lane];\n",
        values.join(", ")
    )
}

#[test]
fn numbers_come_from_integers_and_go_back() {
    let mut cases = Vec::new();
    for (bits, count) in [(8, 4u32), (16, 2)] {
        for is_signed in [false, true] {
            let sign = if is_signed { 's' } else { 'u' };
            let format = format!("{sign}norm{count}x{bits}");
            let last = count - 1;
            cases.push(Words::new(
                format!("as_type<uint>(unpack_{format}_to_float(packed{bits})[{last}])"),
                |lane| {
                    number(raw(lane, last, bits), bits, is_signed)
                        .to_bits()
                        .into()
                },
            ));
            // The smallest integer and its neighbour are both -1.
            let back = move |lane: usize| {
                let components = (0..count).map(|component| {
                    let value = raw(lane, component, bits);
                    let least = 1 << (bits - 1);
                    let value = if is_signed && value == least {
                        least + 1
                    } else {
                        value
                    };
                    value << (component * bits)
                });
                components.sum()
            };
            cases.push(Words::new(
                format!("pack_float_to_{format}(unpack_{format}_to_float(packed{bits}))"),
                back,
            ));
            if bits == 8 {
                cases.push(Words::new(
                    format!("pack_half_to_{format}(unpack_{format}_to_half(packed{bits}))"),
                    back,
                ));
            }
        }
    }
    cases.push(Words::new(
        "pack_float_to_unorm10a2(unpack_unorm10a2_to_float(packed16))",
        |lane| packed(lane, 16),
    ));
    check_words("pack.metal", &[8, 16].map(declare).concat(), &cases);
}

#[test]
fn numbers_are_clamped_and_rounded_to_even() {
    let cases = [
        Words::new("pack_float_to_unorm4x8(float4(-1, 2, NAN, 0.5f))", |_| {
            0x8000_ff00
        }),
        Words::new("pack_float_to_snorm4x8(float4(-9, 2, NAN, -0.5f))", |_| {
            0xc000_7f81
        }),
        Words::new("pack_float_to_unorm2x16(float2(1, 0.5f))", |_| 0x8000_ffff),
        Words::new("pack_half_to_snorm2x16(half2(-1, 1))", |_| 0x7fff_8001),
        Words::new("pack_float_to_unorm10a2(float4(1, 0, 0.5f, 1))", |_| {
            0b11 << 30 | 512 << 20 | 1023
        }),
        Words::new(
            "as_type<uint>(unpack_unorm10a2_to_float(2u << 30 | 1023u << 10).w)",
            |_| (2f32 / 3.0).to_bits().into(),
        ),
        Words::new(
            "as_type<uint>(unpack_unorm10a2_to_float(2u << 30 | 1023u << 10).y)",
            |_| 1f32.to_bits().into(),
        ),
        // Values of sRGB by its definition: 188 of 255 for a half, and alpha as it is.
        Words::new(
            "pack_float_to_srgb_unorm4x8(float4(0, 0.5f, 1, 0.5f))",
            |_| 0x80ff_bc00,
        ),
        Words::new("pack_half_to_srgb_unorm4x8(half4(0.002h))", |_| {
            (0.002f64 * 12.92 * 255.0).round() as u64 * 0x0001_0101 + (1 << 24)
        }),
        Words::new(
            "(uint(unpack_unorm4x8_srgb_to_float(0x80bc).y * 1000.0f + 0.5f))",
            |_| {
                ((0x80 as f64 / 255.0 + 0.055) / 1.055)
                    .powf(2.4)
                    .mul_add(1000.0, 0.5) as u64
            },
        ),
    ];
    check_words("packing.metal", "", &cases);
}
