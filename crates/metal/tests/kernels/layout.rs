//! Argument structs have the same layout in Rust and in MSL.

use std::time::Duration;

use minfer_metal::arguments::{
    Attention, Elementwise, Embed, FlashCombine, FlashDecode, FlashPrefill, FusedFfn, FusedMatMul,
    FusedQkv, GetRows, HEADER, KernelArguments, KvRotate, KvStage, KvStore, Norm, Product, Rope,
    SplitScores, SplitValues, ThreePass,
};
use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, Dispatch, Grid, LibrarySource, Size, SourceFile,
};
use minfer_softmetal::{Mode, Options, SoftDevice};

/// What a kernel says about the struct: its size, then the offset of each field.
fn in_msl<T: KernelArguments>() -> Vec<u32> {
    let mut text = format!(
        "#include <metal_stdlib>\n#include \"arguments.h\"\n\
         kernel void layout(device uint* y [[buffer(0)]], constant {name}& args [[buffer(1)]]) {{\n\
         y[0] = sizeof({name});\n",
        name = T::NAME
    );
    for (index, field) in T::FIELDS.iter().enumerate() {
        let address = |of: &str| format!("(ulong)(constant char*)&{of}");
        let offset = format!(
            "{} - {}",
            address(&format!("args.{}", field.name)),
            address("args")
        );
        text += &format!("y[{}] = uint({offset});\n", index + 1);
    }
    text += "}\n";
    let file = SourceFile {
        name: "layout.metal",
        text: &text,
    };
    run::<T>(&LibrarySource::new(file, &[HEADER]).unwrap())
}

fn run<T: KernelArguments>(source: &LibrarySource) -> Vec<u32> {
    let device = SoftDevice::new(Options {
        mode: Mode::Unchecked,
        ..Options::default()
    });
    let library = device.library(source).unwrap();
    let pipeline = device.pipeline(&library, "layout", &[]).unwrap();
    let y = device.buffer(4 * (1 + T::FIELDS.len()), "layout").unwrap();
    let arguments = [
        Argument::Buffer {
            index: 0,
            range: BufferRange::whole(&y),
            access: Access::Write,
        },
        Argument::Bytes {
            index: 1,
            bytes: &vec![0; size_of::<T>()],
        },
    ];
    let dispatch = Dispatch {
        label: T::NAME,
        pipeline: &pipeline,
        arguments: &arguments,
        grid: Grid::Threads(Size::linear(1)),
        threadgroup: Size::linear(1),
    };
    device.run(&dispatch, Duration::from_secs(60)).unwrap();
    let mut bytes = vec![0; y.bytes()];
    y.read(0, &mut bytes).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| u32::from_le_bytes(*chunk))
        .collect()
}

fn check<T: KernelArguments>() {
    let offsets = T::FIELDS.iter().map(|field| field.offset as u32);
    let expected: Vec<_> = std::iter::once(size_of::<T>() as u32)
        .chain(offsets)
        .collect();
    assert_eq!(in_msl::<T>(), expected, "{}", T::NAME);
}

#[test]
fn both_languages_agree_on_every_field() {
    check::<Elementwise>();
    check::<Norm>();
    check::<Rope>();
    check::<GetRows>();
    check::<Embed>();
    check::<KvStore>();
    check::<Product>();
    check::<Attention>();
    check::<FlashDecode>();
    check::<FlashCombine>();
    check::<FlashPrefill>();
    check::<KvRotate>();
    check::<FusedMatMul>();
    check::<FusedFfn>();
    check::<FusedQkv>();
    check::<KvStage>();
    check::<SplitScores>();
    check::<SplitValues>();
    check::<ThreePass>();
}
