//! s
use minfer_metal::arguments::*;
use minfer_metal::device::*;
use minfer_softmetal::*;
use std::time::Duration;

#[test]
fn add_runs() {
    let device = SoftDevice::new(Options::default());
    let source = minfer_metal::kernels::library(minfer_metal::kernels::ELEMENTWISE).unwrap();
    let t = std::time::Instant::now();
    let library = device.library(&source).unwrap();
    println!("compile {:?}", t.elapsed());
    let pipeline = device
        .pipeline(&library, "add", &[(0, ConstantValue::Bool(true))])
        .unwrap();
    let y = device.buffer(4096, "y").unwrap();
    let a = device.buffer(4096, "a").unwrap();
    let v: Vec<u8> = (0..1024).flat_map(|i| (i as f32).to_le_bytes()).collect();
    a.write(0, &v).unwrap();
    let args = Elementwise {
        width: 256,
        y_stride: 256,
        a_stride: 256,
        b_stride: 256,
        factor: 0.0,
    };
    let mut cb = device.command_buffer("cb").unwrap();
    let mut enc = cb.compute(Order::Concurrent).unwrap();
    enc.dispatch(&Dispatch {
        label: "add0",
        pipeline: &pipeline,
        arguments: &[
            Argument::Bytes {
                index: 0,
                bytes: args.as_bytes(),
            },
            Argument::Buffer {
                index: 1,
                range: BufferRange::whole(&y),
                access: Access::Write,
            },
            Argument::Buffer {
                index: 2,
                range: BufferRange::whole(&a),
                access: Access::Read,
            },
            Argument::Buffer {
                index: 3,
                range: BufferRange::whole(&a),
                access: Access::Read,
            },
        ],
        grid: Grid::Threads(Size([64, 4, 1])),
        threadgroup: Size([64, 1, 1]),
    })
    .unwrap();
    drop(enc);
    cb.submit(Duration::from_secs(10)).unwrap();
    let mut out = vec![0u8; 4096];
    y.read(0, &mut out).unwrap();
    assert_eq!(&out[4092..], &(2046f32).to_le_bytes());
    println!("{:?}", device.statistics());
    assert!(device.take_reports().is_empty());
}

#[test]
fn race_is_caught() {
    let device = SoftDevice::new(Options::default());
    let text = r#"#include <metal_stdlib>
using namespace metal;
kernel void shift(device float* y [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = float(i);
    y[i] = shared[(i + 1) % 64];
}
"#;
    let source = LibrarySource::new(
        SourceFile {
            name: "shift.metal",
            text,
        },
        &[],
    )
    .unwrap();
    let library = device.library(&source).unwrap();
    let pipeline = device.pipeline(&library, "shift", &[]).unwrap();
    let y = device.buffer(256, "y").unwrap();
    let mut cb = device.command_buffer("cb").unwrap();
    cb.compute(Order::Concurrent)
        .unwrap()
        .dispatch(&Dispatch {
            label: "shift",
            pipeline: &pipeline,
            arguments: &[Argument::Buffer {
                index: 0,
                range: BufferRange::whole(&y),
                access: Access::Write,
            }],
            grid: Grid::Threads(Size([64, 1, 1])),
            threadgroup: Size([64, 1, 1]),
        })
        .unwrap();
    println!("{:?}", cb.submit(Duration::from_secs(10)));
    for r in device.take_reports() {
        println!("{r}\n");
    }
}
