//! Instruction-set levels and which of them this machine can run.

#[cfg(target_arch = "x86_64")]
mod amx;

/// A level of SIMD instructions. On x86-64 each level implies those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Portable Rust, the reference.
    Scalar,
    /// x86-64: AVX2, FMA and F16C.
    Avx2,
    /// x86-64: AVX-512 F, BW, DQ, VL and VNNI, beside everything in [`Isa::Avx2`].
    Avx512,
    /// x86-64: AVX-512 BF16 and AMX tiles of bf16, beside everything in [`Isa::Avx512`].
    Amx,
    /// AArch64: NEON with the dot-product extension.
    Neon,
}

/// A requested level that does not exist or that this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// No level has this name.
    #[error("unknown instruction set '{0}': expected auto, scalar, avx2, avx512, amx or neon")]
    Unknown(String),
    /// The level exists, but not on this machine.
    #[error("instruction set '{wanted}' is not available here; best is '{best}'")]
    Unavailable {
        /// The level asked for.
        wanted: Isa,
        /// What [`Isa::detect`] finds.
        best: Isa,
    },
}

impl Isa {
    const ALL: [Isa; 5] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Amx, Isa::Neon];

    /// The best level of this machine.
    pub fn detect() -> Isa {
        Isa::available().last().copied().unwrap_or(Isa::Scalar)
    }

    /// The level a user asked for by name (`MINFER_CPU_ISA`); `auto` or the empty string is
    /// [`Isa::detect`].
    pub fn select(name: &str) -> Result<Isa, IsaError> {
        if name.is_empty() || name.eq_ignore_ascii_case("auto") {
            return Ok(Isa::detect());
        }
        let wanted = Isa::ALL
            .into_iter()
            .find(|isa| name.eq_ignore_ascii_case(isa.name()))
            .ok_or_else(|| IsaError::Unknown(name.to_owned()))?;
        if !wanted.is_available() {
            let best = Isa::detect();
            return Err(IsaError::Unavailable { wanted, best });
        }
        Ok(wanted)
    }

    /// Every level of this machine, [`Isa::Scalar`] first, the best last.
    pub fn available() -> Vec<Isa> {
        Isa::ALL
            .into_iter()
            .filter(|isa| isa.is_available())
            .collect()
    }

    /// Whether this machine and its operating system can run the level.
    ///
    /// Safe kernel entry points assert this before they call into `target_feature` code. The answer
    /// is cached, so asking costs a few loads.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => x86::avx2(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => x86::avx512(),
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => x86::avx512() && x86::amx(),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => {
                std::arch::is_aarch64_feature_detected!("neon")
                    && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            _ => false,
        }
    }

    /// Lower-case name, as [`Isa::select`] takes it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Amx => "amx",
            Isa::Neon => "neon",
        }
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected as has;

    pub fn avx2() -> bool {
        has!("avx2") && has!("fma") && has!("f16c")
    }

    pub fn avx512() -> bool {
        avx2()
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512dq")
            && has!("avx512vl")
            && has!("avx512vnni")
    }

    /// Tiles also need a permission from the kernel, which no CPUID bit shows.
    pub fn amx() -> bool {
        has!("avx512bf16") && super::amx::is_available()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_scalar_is_everywhere() {
        assert_eq!(Isa::select("scalar"), Ok(Isa::Scalar));
        assert_eq!(Isa::select("auto"), Ok(Isa::detect()));
        for isa in Isa::available() {
            assert_eq!(Isa::select(&isa.to_string().to_uppercase()), Ok(isa));
        }
    }

    #[test]
    fn unknown_and_foreign_levels_are_refused() {
        assert_eq!(
            Isa::select("sse9"),
            Err(IsaError::Unknown("sse9".to_owned()))
        );
        let foreign = if cfg!(target_arch = "x86_64") {
            Isa::Neon
        } else {
            Isa::Avx2
        };
        assert!(matches!(
            Isa::select(foreign.name()),
            Err(IsaError::Unavailable { wanted, .. }) if wanted == foreign
        ));
    }

    #[test]
    fn a_level_implies_the_lower_ones() {
        let available = Isa::available();
        assert_eq!(available.first(), Some(&Isa::Scalar));
        if available.contains(&Isa::Avx512) {
            assert!(available.contains(&Isa::Avx2));
        }
        if available.contains(&Isa::Amx) {
            assert!(available.contains(&Isa::Avx512));
        }
    }
}
