//! What cannot run where it was asked to is an error that says why.

use minfer_engine::{DeviceChoice, EngineOptions};
use minfer_graph::KvFormat;

use crate::support::{DEVICE, LAYERS, has_device, load, options, refused, with_format};

#[test]
fn a_weight_without_kernels_is_named_with_its_type() {
    if !has_device() {
        return;
    }
    let expected = |ty: &str| {
        let device = DEVICE.name();
        format!("{device} has no kernels for token_embd.weight, which is {ty} [")
    };
    for (model, ty) in [
        ("tiny-qwen2-q2_k", "Q2_K"),
        ("tiny-qwen2-q3_k", "Q3_K"),
        ("tiny-qwen2-iq4_nl", "IQ4_NL"),
    ] {
        for layers in [None, Some(1)] {
            let error = refused(model, &options(layers)).to_string();
            assert!(error.starts_with(&expected(ty)), "{error}");
        }
        // Nothing was asked of the device.
        let engine = load(model, &options(Some(0)));
        assert_eq!(engine.placement().device, DeviceChoice::Cpu);
    }
}

#[test]
fn layers_for_a_gpu_on_the_cpu_are_not_dropped_silently() {
    let on = |layers| {
        let options = EngineOptions {
            device: DeviceChoice::Cpu,
            ..options(layers)
        };
        load("tiny-qwen3-q4_k", &options).placement().to_string()
    };
    let everywhere = "all 2 layers run on the CPU";
    assert_eq!(on(None), everywhere);
    assert_eq!(on(Some(0)), everywhere);
    let expected = format!("{everywhere}: the device is cpu, so 9 GPU layers run there too");
    assert_eq!(on(Some(9)), expected);
}

#[test]
fn a_kv_format_is_as_asked_for() {
    if !has_device() {
        return;
    }
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        let engine = load("tiny-qwen3-q4_k", &with_format(LAYERS, format));
        assert_eq!(engine.kv_format(), format);
    }
    let automatic = load("tiny-qwen3-q4_k", &options(None));
    assert_eq!(
        automatic.kv_format(),
        KvFormat::F32,
        "fewer than 8192 features"
    );
}
