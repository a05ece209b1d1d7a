//! A recording with one of everything, and what must be in it.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, BlitEncoder, Buffer, BufferRange, CommandBuffer, ComputeEncoder,
    ConstantValue, Device, Dispatch, Grid, LibrarySource, Order, Size, SourceFile, StableBytes,
};
use minfer_metal::replay::Recorder;
use minfer_softmetal::{Options, SoftBuffer, SoftDevice};
use serde_json::Value;
use tempfile::TempDir;

pub const LIMIT: Duration = Duration::from_secs(60);

const KERNELS: SourceFile<'_> = SourceFile {
    name: "scene.metal",
    text: r#"#include <metal_stdlib>
#include "scene.h"
using namespace metal;

constant bool negate [[function_constant(2)]];

/// `y[i] = (x[last - i] + bias) * weight[i]` of each threadgroup, negated by choice; `y` may be `x`.
kernel void turn(constant Turn& args [[buffer(0)]],
                 device float* y [[buffer(1)]],
                 device const float* x [[buffer(2)]],
                 device const float* weight [[buffer(3)]],
                 threadgroup float* shared [[threadgroup(0)]],
                 uint at [[thread_position_in_grid]],
                 uint i [[thread_position_in_threadgroup]],
                 uint threads [[threads_per_threadgroup]]) {
    shared[i] = x[at] + args.bias;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float turned = shared[threads - 1 - i] * weight[i];
    y[at] = negate ? -turned : turned;
}
"#,
};

const HEADER: SourceFile<'_> = SourceFile {
    name: "scene.h",
    text: "struct Turn {\n    float bias;\n};\n",
};

/// Threads in a threadgroup of the scene.
pub const THREADS: usize = 8;
/// Bytes of the activations before the first one that is used.
pub const X_OFFSET: usize = 20;
/// Threadgroups.
pub const GROUPS: usize = 2;
/// Added to `x`.
const BIAS: f32 = 0.5;

/// A page of weights: 1, 2, 3...
#[repr(align(16384))]
struct Page([f32; 4096]);

// SAFETY: the page is never written, and its box keeps it in place.
unsafe impl StableBytes for Box<Page> {
    fn bytes(&self) -> &[u8] {
        // SAFETY: floats are initialized bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), 4 * self.0.len()) }
    }
}

pub fn device() -> SoftDevice {
    SoftDevice::new(Options {
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    })
}

/// What a dispatch of the scene differs in.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub label: &'a str,
    pub negate: bool,
    /// Byte of the weights.
    pub weight_offset: usize,
    /// Whether the output takes the place of the input.
    pub in_place: bool,
}

/// The recorder with buffers to dispatch on.
pub struct Scene {
    pub recorder: Recorder<SoftDevice>,
    pub x: SoftBuffer,
    pub y: SoftBuffer,
    weights: SoftBuffer,
}

impl Scene {
    pub fn new(folder: &Path) -> Self {
        let recorder = Recorder::new(device(), folder).unwrap();
        let values: Vec<u8> = input().iter().flat_map(|v| v.to_le_bytes()).collect();
        let x = recorder.buffer(X_OFFSET + values.len() + 60, "x").unwrap();
        x.write(X_OFFSET, &values).unwrap();
        let page = Box::new(Page(std::array::from_fn(|i| i as f32 + 1.0)));
        let weights = recorder.wrap(Arc::new(page), "weights").unwrap();
        let y = recorder.buffer(256, "y").unwrap();
        Scene {
            recorder,
            x,
            y,
            weights,
        }
    }

    /// Calls `then` with a dispatch.
    pub fn with<R>(
        &self,
        turn: Turn<'_>,
        then: impl FnOnce(&Dispatch<'_, Recorder<SoftDevice>>) -> R,
    ) -> R {
        let source = LibrarySource::new(KERNELS, &[HEADER]).unwrap();
        let library = self.recorder.library(&source).unwrap();
        let constants = [(2, ConstantValue::Bool(turn.negate))];
        let pipeline = self.recorder.pipeline(&library, "turn", &constants);
        let pipeline = pipeline.unwrap();
        let bytes = 4 * THREADS * GROUPS;
        let range = |buffer, offset, bytes| BufferRange {
            buffer,
            offset,
            bytes,
        };
        let x = range(&self.x, X_OFFSET, bytes);
        let buffer = |index, range, access| Argument::Buffer {
            index,
            range,
            access,
        };
        let y = match turn.in_place {
            true => x,
            false => range(&self.y, 32, bytes),
        };
        let weight = range(&self.weights, turn.weight_offset, 4 * THREADS);
        then(&Dispatch {
            label: turn.label,
            pipeline: &pipeline,
            arguments: &[
                Argument::Bytes {
                    index: 0,
                    bytes: &BIAS.to_le_bytes(),
                },
                buffer(1, y, Access::Write),
                buffer(2, x, Access::Read),
                buffer(3, weight, Access::Read),
                Argument::Threadgroup {
                    index: 0,
                    bytes: 4 * THREADS,
                },
            ],
            grid: Grid::Threadgroups(Size::linear(GROUPS as u32)),
            threadgroup: Size::linear(THREADS as u32),
        })
    }

    /// Runs dispatches in one command buffer, with a barrier after each.
    pub fn run(&self, turns: &[Turn<'_>]) {
        let commands = self.recorder.command_buffer("scene").unwrap();
        let mut encoder = commands.compute(Order::Concurrent).unwrap();
        for turn in turns {
            self.with(*turn, |dispatch| encoder.dispatch(dispatch))
                .unwrap();
            encoder.barrier();
        }
        let mut blit = encoder.end().blit().unwrap();
        blit.fill(BufferRange::whole(&self.y), 7).unwrap();
        blit.end().submit(LIMIT).unwrap();
    }
}

/// Values of `x`.
pub fn input() -> Vec<f32> {
    (0..THREADS * GROUPS).map(|i| i as f32).collect()
}

/// What a turn gives, with weights from `first` on.
pub fn turned(x: &[f32], first: f32, sign: f32) -> Vec<f32> {
    let group = |x: &[f32]| {
        let weighted = x.iter().rev().enumerate();
        let weighted = weighted.map(|(i, x)| sign * (x + BIAS) * (first + i as f32));
        weighted.collect::<Vec<_>>()
    };
    x.chunks(THREADS).flat_map(group).collect()
}

pub const PLAIN: Turn<'_> = Turn {
    label: "first",
    negate: false,
    weight_offset: 64,
    in_place: false,
};

/// The bundle of one plain dispatch, one like it, one negated and one in place.
pub fn recorded() -> TempDir {
    static MADE: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let scene = Scene::new(folder.path());
        let again = Turn {
            label: "again",
            weight_offset: 128,
            ..PLAIN
        };
        let negated = Turn {
            label: "negated",
            negate: true,
            ..PLAIN
        };
        let in_place = Turn {
            label: "in place",
            in_place: true,
            ..PLAIN
        };
        scene.run(&[PLAIN, again, negated, in_place]);
        assert_eq!(scene.recorder.finish().unwrap(), 3);
        folder
    });
    let copy = tempfile::tempdir().unwrap();
    copy_folder(MADE.path(), copy.path());
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

pub fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Changes a JSON file.
pub fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = json(path);
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}
