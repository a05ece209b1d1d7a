//! The exponential function, written so that loops over it vectorize.

/// Below this the result would be subnormal and is 0.
const LOWEST: f32 = -87.336_54;
/// Above this `2^n` no longer fits an exponent field and the result is infinite.
const HIGHEST: f32 = 88.376_26;
/// `ln 2` split so that `n * LN2_HI` is exact for |n| < 2^9.
const LN2_HI: f32 = 355.0 / 512.0;
const LN2_LO: f32 = -2.121_944_4e-4;
/// 1.5 * 2^23: adding it rounds to an integer, found in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;

/// `e^x`, within 2 units in the last place between [`LOWEST`] and [`HIGHEST`]; 0 below, infinite
/// above; exactly 1 at 0. NaN stays NaN.
///
/// `x = n ln 2 + r` with |r| <= ln 2 / 2; `e^r` is its Taylor polynomial of degree 7, whose
/// truncation error, r^8 / 8! < 6e-9, is below half a unit.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    let mut p = 1.0 / 5040.0f32;
    p = p.mul_add(r, 1.0 / 720.0);
    p = p.mul_add(r, 1.0 / 120.0);
    p = p.mul_add(r, 1.0 / 24.0);
    p = p.mul_add(r, 1.0 / 6.0);
    p = p.mul_add(r, 0.5);
    p = p.mul_add(r, 1.0);
    p = p.mul_add(r, 1.0);
    let exponent = shifted.to_bits().wrapping_add(127) << 23;
    let y = p * f32::from_bits(exponent);
    if x < LOWEST {
        0.0
    } else if x > HIGHEST {
        f32::INFINITY
    } else {
        y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for i in 0..2_000_000 {
            let x = LOWEST + (HIGHEST - LOWEST) * (i as f32 / 2e6);
            let exact = f64::from(x).exp();
            let nearest = exact as f32;
            let unit = f64::from(nearest.next_up()) - f64::from(nearest);
            worst = worst.max((f64::from(exp(x)) - exact).abs() / unit);
        }
        assert!(worst < 2.0, "{worst} units");
    }

    #[test]
    fn special_values() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
