//! Beside the software device there is no GPU.

use minfer_engine::{DeviceChoice, EngineOptions, metal_devices};

use crate::support::{load, options, refused};

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
