//! What cannot run where it was asked to is an error that says why.

use minfer_engine::{DeviceChoice, EngineOptions, metal_devices};
use minfer_graph::KvFormat;

use crate::support::{LAYERS, load, options, refused, with_format};

#[test]
fn a_weight_without_kernels_is_named_with_its_type() {
    let expected =
        |ty: &str| format!("soft-metal has no kernels for token_embd.weight, which is {ty} [");
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
fn there_is_no_metal_here() {
    let metal = |disabled| {
        let mut options = EngineOptions {
            device: DeviceChoice::Metal,
            ..options(None)
        };
        options.metal.disabled = disabled;
        refused("tiny-qwen3-q4_k", &options).to_string()
    };
    let expected = "there is no device metal: Metal exists on Apple's systems only";
    assert_eq!(metal(false), expected);
    assert_eq!(
        metal(true),
        "there is no device metal: MINFER_DISABLE_MPS is set"
    );
}

#[test]
fn layers_for_a_device_that_is_not_there_run_on_the_cpu_and_it_is_said() {
    let on = |layers| {
        let options = EngineOptions {
            device: DeviceChoice::Auto,
            ..options(layers)
        };
        load("tiny-qwen3-q4_k", &options).placement().to_string()
    };
    assert_eq!(on(None), "all 2 layers run on the CPU");
    let expected = "all 2 layers run on the CPU: Metal exists on Apple's systems only";
    assert_eq!(on(Some(9)), expected);
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
fn the_software_device_says_what_it_is() {
    let devices = metal_devices(&options(None).metal);
    let choices = devices.iter().map(|device| device.choice);
    assert_eq!(
        choices.collect::<Vec<_>>(),
        [DeviceChoice::Metal, DeviceChoice::SoftMetal]
    );
    let info = devices[1].info.as_ref().expect("the feature is on");
    assert_eq!(info.name, "software device (Apple M1)");
    assert_eq!(info.simd_width, 32);
}

#[test]
fn a_kv_format_is_as_asked_for() {
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
