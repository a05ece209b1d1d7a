//! What a session was computed by, as far as it decides the bits of its rows.

use std::fmt;
use std::sync::OnceLock;

use minfer_cpu::{Isa, PrefillPrecision};
use minfer_gguf::{Gguf, TensorBytes};
use minfer_metal::backend::KernelChoices;
use minfer_metal::ops::flash_decode::MOST_CHUNKS;

use super::SessionFileError;
use crate::EngineOptions;
use crate::device::Placement;

/// Bytes of each end of a tensor that the fingerprint covers.
const SAMPLE: usize = 4096;

/// Hexadecimal digits of the hash of a label that is cut.
const HASH_DIGITS: usize = 12;

/// Text of at most `N` bytes, padded with zeros. A longer one is cut between characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<const N: usize>(pub [u8; N]);

impl<const N: usize> Label<N> {
    pub fn new(text: &str) -> Self {
        let kept = &text.as_bytes()[..text.floor_char_boundary(N)];
        let mut bytes = [0; N];
        bytes[..kept.len()].copy_from_slice(kept);
        Label(bytes)
    }

    /// Like [`Label::new`], but one that is cut ends with a hash of the whole text, so that labels of different texts
    /// differ.
    pub fn distinct(text: &str) -> Self {
        if text.len() <= N {
            return Label::new(text);
        }
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let hash = &hash[..HASH_DIGITS.min(N)];
        let kept = &text[..text.floor_char_boundary(N - hash.len())];
        Label::new(&format!("{kept}{hash}"))
    }
}

impl<const N: usize> fmt::Display for Label<N> {
    /// Control characters are escaped: the text may come from a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).escape_debug().fmt(f)
    }
}

/// Which model it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModelId {
    /// Hash of the files' headers and of samples of their tensors.
    pub fingerprint: [u8; 32],
    /// For messages.
    pub name: Label<64>,
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.fingerprint.first_chunk().copied();
        let start = u64::from_be_bytes(start.unwrap_or_default());
        write!(f, "'{}' ({start:016x})", self.name)
    }
}

/// Everything beside tokens, roles and the KV format that decides the bits of a row. Threads, chunks and
/// fusion change none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub model: ModelId,
    pub backend: Label<16>,
    pub arithmetic: Label<32>,
    pub program: Label<32>,
}

/// The origin of what an engine computes. The samples of its tensors are hashed when it is first asked for:
/// that takes 5 ms for 0.5B parameters, but half a second while the file is not in the page cache.
pub(crate) struct EngineOrigin {
    name: Label<64>,
    backend: Label<16>,
    arithmetic: Label<32>,
    headers: blake3::Hasher,
    tensors: Vec<TensorBytes>,
    origin: OnceLock<Origin>,
}

impl EngineOrigin {
    /// The origin of what an engine of these options computes with `placement`. `isa` is the CPU's.
    pub fn new(gguf: &Gguf, placement: &Placement, isa: Isa, options: &EngineOptions) -> Self {
        let on_cpu = cpu_arithmetic(isa, options.prefill);
        let arithmetic = arithmetic(placement, &options.metal.kernels, on_cpu);
        let mut headers = blake3::Hasher::new();
        for header in gguf.headers() {
            headers.update(&(header.len() as u64).to_le_bytes());
            headers.update(header);
        }
        let tensors = gguf.tensors().iter();
        let tensors = tensors.filter_map(|info| gguf.tensor(&info.name));
        let name = gguf.metadata().get_str("general.name");
        EngineOrigin {
            name: Label::new(name.ok().flatten().unwrap_or("without a name")),
            backend: Label::new(&backend(placement)),
            arithmetic: Label::distinct(&arithmetic),
            headers,
            tensors: tensors.map(|tensor| tensor.bytes).collect(),
            origin: OnceLock::new(),
        }
    }

    pub(super) fn get(&self) -> &Origin {
        self.origin.get_or_init(|| Origin {
            model: ModelId {
                fingerprint: self.fingerprint(),
                name: self.name,
            },
            backend: self.backend,
            arithmetic: self.arithmetic,
            program: Label::new(env!("CARGO_PKG_VERSION")),
        })
    }

    /// Hashes metadata and tensor entries whole, but of each tensor's bytes both ends: all of them would take
    /// as long as reading the model. Training and quantizing again change every tensor from its first block
    /// on; a weight changed by hand in the middle of a tensor goes unnoticed.
    fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = self.headers.clone();
        for tensor in &self.tensors {
            let first = tensor.len().min(SAMPLE);
            let last = first.max(tensor.len().saturating_sub(SAMPLE));
            hasher.update(&tensor[..first]);
            hasher.update(&tensor[last..]);
        }
        hasher.finalize().into()
    }
}

impl Origin {
    /// Refuses what was computed elsewhere, the most telling difference first.
    pub fn check(&self, saved: &Origin) -> Result<(), SessionFileError> {
        if saved.model.fingerprint != self.model.fingerprint {
            return Err(SessionFileError::Model {
                saved: saved.model.to_string(),
                engine: self.model.to_string(),
            });
        }
        if saved.backend != self.backend {
            return Err(SessionFileError::Backend {
                saved: saved.backend.to_string(),
                engine: self.backend.to_string(),
            });
        }
        if saved.arithmetic != self.arithmetic {
            return Err(SessionFileError::Arithmetic {
                saved: saved.arithmetic.to_string(),
                engine: self.arithmetic.to_string(),
            });
        }
        if saved.program != self.program {
            return Err(SessionFileError::Program {
                saved: saved.program.to_string(),
                engine: self.program.to_string(),
            });
        }
        Ok(())
    }
}

/// `cpu`, `metal`, or `metal+cpu` where both run layers.
fn backend(placement: &Placement) -> String {
    let device = placement.device.name();
    match placement.is_on_device() && !placement.is_whole() {
        true => format!("{device}+cpu"),
        false => device.to_owned(),
    }
}

/// GPUs of different generations may round differently, so a device counts by its name; other kernels than the
/// fastest add in other orders. Where both a device and the CPU run layers, the arithmetic of both counts, and which
/// layers run where.
fn arithmetic(placement: &Placement, kernels: &KernelChoices, on_cpu: &str) -> String {
    let Some(device) = &placement.device_name else {
        return on_cpu.to_owned();
    };
    let mut on_device = device.clone();
    for choice in other_kernels(kernels) {
        on_device += ", ";
        on_device += &choice;
    }
    match placement.is_whole() {
        true => on_device,
        false => format!("{} layers {on_device}, {on_cpu}", placement.layers),
    }
}

/// In which way kernels are not the fastest, in the words of their variables.
fn other_kernels(kernels: &KernelChoices) -> Vec<String> {
    let KernelChoices {
        gemm,
        flash_decode,
        flash_prefill,
        window_flash,
        split_attention,
        attention_chunks,
        packed_stage,
    } = *kernels;
    let switches = [
        (!gemm, "no gemm"),
        (!flash_decode, "no flash"),
        (!flash_prefill, "no prefill flash"),
        (!window_flash, "no window flash"),
        (!split_attention, "no split attn"),
        (packed_stage, "packed stage"),
    ];
    let named = switches.into_iter().filter(|(on, _)| *on);
    let chunks = attention_chunks.filter(|&chunks| chunks < MOST_CHUNKS);
    let chunks = chunks.map(|chunks| format!("{chunks} chunks"));
    named
        .map(|(_, name)| name.to_owned())
        .chain(chunks)
        .collect()
}

/// The instruction set; on AMX, which alone heeds it, also the precision of prompt rows.
fn cpu_arithmetic(isa: Isa, prefill: PrefillPrecision) -> &'static str {
    match (isa, prefill) {
        (Isa::Amx, PrefillPrecision::Split) => "amx, split prefill",
        (Isa::Amx, PrefillPrecision::Bf16) => "amx, bf16 prefill",
        _ => isa.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceChoice;

    #[test]
    fn labels_are_cut_between_characters_and_shown_without_control_characters() {
        assert_eq!(Label::<4>::new("cpu").0, *b"cpu\0");
        assert_eq!(Label::<4>::new("abcé").0, *b"abc\0", "é has two bytes");
        assert_eq!(Label::<4>::new("abcdef").to_string(), "abcd");
        assert_eq!(Label::<4>::new("a\x1bb").to_string(), "a\\u{1b}b");
        assert_eq!(Label::<4>([0xff; 4]).to_string(), "\u{fffd}".repeat(4));
    }

    #[test]
    fn labels_that_are_cut_differ_as_their_texts_do() {
        let label = |text: &str| Label::<32>::distinct(text).to_string();
        assert_eq!(
            label("12 layers Apple M4 Pro, avx512"),
            "12 layers Apple M4 Pro, avx512"
        );
        let long = |end: &str| label(&format!("12 layers Apple M4 Pro, amx, {end} prefill"));
        assert!(
            long("split").starts_with("12 layers Apple M4 P"),
            "{}",
            long("split")
        );
        assert_eq!(long("split").len(), 32);
        assert_ne!(long("split"), long("bf16"));
    }

    #[test]
    fn a_placement_is_part_of_the_origin() {
        let placement = |layers| Placement {
            device: DeviceChoice::Metal,
            device_name: Some("Apple M4 Pro".to_owned()),
            layers,
            of: 24,
            reason: None,
        };
        let origin = |layers| {
            let placement = placement(layers);
            let arithmetic = arithmetic(&placement, &KernelChoices::default(), "avx2");
            (backend(&placement), arithmetic)
        };
        let pair = |backend: &str, arithmetic: &str| (backend.to_owned(), arithmetic.to_owned());
        assert_eq!(origin(24), pair("metal", "Apple M4 Pro"));
        let partial = pair("metal+cpu", "12 layers Apple M4 Pro, avx2");
        assert_eq!(origin(12), partial);
        let on_cpu = Placement::on_cpu(24, None);
        assert_eq!(backend(&on_cpu), "cpu");
        let slow = KernelChoices {
            gemm: false,
            ..KernelChoices::default()
        };
        assert_eq!(arithmetic(&on_cpu, &slow, "avx2"), "avx2");
        let chosen = |kernels| arithmetic(&placement(24), &kernels, "avx2");
        assert_eq!(chosen(slow), "Apple M4 Pro, no gemm");
        let chunks = |count| KernelChoices {
            attention_chunks: Some(count),
            ..slow
        };
        assert_eq!(chosen(chunks(4)), "Apple M4 Pro, no gemm, 4 chunks");
        // As many as without a choice.
        assert_eq!(chosen(chunks(MOST_CHUNKS)), chosen(slow));
    }

    #[test]
    fn only_amx_heeds_the_precision_of_prompt_rows() {
        let (split, bf16) = (PrefillPrecision::Split, PrefillPrecision::Bf16);
        assert_ne!(
            cpu_arithmetic(Isa::Amx, split),
            cpu_arithmetic(Isa::Amx, bf16)
        );
        for isa in [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Neon] {
            assert_eq!(cpu_arithmetic(isa, split), cpu_arithmetic(isa, bf16));
        }
    }
}
