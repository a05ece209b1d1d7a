//! The devices there are.

use minfer_graph::Backend;
use minfer_metal::backend::{MetalBackend, MetalOptions, Sharing};
use minfer_metal::device::{CAPTURE_ELSEWHERE, Device, DeviceInfo};

use super::{DeviceChoice, MetalSettings, OffloadError, Placement};
use crate::EngineOptions;

/// A Metal device, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetalDevice {
    /// How it is chosen.
    pub choice: DeviceChoice,
    /// What it says about itself, or why it cannot be used.
    pub info: Result<DeviceInfo, String>,
}

/// Every Metal device that [`EngineOptions::device`] can name. No GPU trace is written.
pub fn metal_devices(settings: &MetalSettings) -> Vec<MetalDevice> {
    let settings = settings.without_capture();
    let devices = [DeviceChoice::Metal, DeviceChoice::SoftMetal].map(|choice| MetalDevice {
        choice,
        info: open(choice, &settings).map(|accelerator| accelerator.info),
    });
    devices.into()
}

/// A device beside the CPU.
pub(crate) struct Accelerator {
    pub choice: DeviceChoice,
    pub info: DeviceInfo,
    start: Box<dyn FnOnce(MetalOptions) -> Box<dyn Backend>>,
}

impl Accelerator {
    #[cfg_attr(
        not(any(
            target_vendor = "apple",
            minfer_check_apple,
            all(feature = "softmetal", target_os = "linux")
        )),
        expect(dead_code, reason = "this build knows no device")
    )]
    fn new(choice: DeviceChoice, device: impl Device + 'static) -> Self {
        Accelerator {
            choice,
            info: device.info().clone(),
            start: Box::new(|options| Box::new(MetalBackend::new(device, options))),
        }
    }

    /// Bytes that may be used; `None` when unknown.
    pub fn available(&self, settings: &MetalSettings) -> Option<u64> {
        let recommended = self.info.recommended_working_set;
        [recommended, settings.memory].into_iter().flatten().min()
    }

    /// The backend that runs what `placement` gives it.
    pub fn backend(self, placement: &Placement, settings: &MetalSettings) -> Box<dyn Backend> {
        let mut options = MetalOptions {
            name: self.choice.name().to_owned(),
            sharing: match (settings.copy_weights, placement.is_whole()) {
                (true, _) => Sharing::Nothing,
                (false, true) => Sharing::Files,
                (false, false) => Sharing::Weights,
            },
            kernels: settings.kernels,
            touch_weights: self.choice == DeviceChoice::Metal,
            trace: settings.trace,
            ..MetalOptions::default()
        };
        if self.choice == DeviceChoice::SoftMetal {
            // A CPU takes minutes for what a GPU that does not hang does in a second.
            options.submit_limit = std::time::Duration::from_secs(3600);
        }
        (self.start)(options)
    }
}

/// The device that the options ask for, if it is not the CPU; without one, why not where that may surprise.
pub(crate) fn select(
    options: &EngineOptions,
) -> Result<(Option<Accelerator>, Option<String>), OffloadError> {
    let is_metal = matches!(options.device, DeviceChoice::Auto | DeviceChoice::Metal);
    if options.metal.capture.is_some() && (!is_metal || options.gpu_layers == Some(0)) {
        return Err(OffloadError::Missing {
            device: DeviceChoice::Metal.name(),
            reason: match is_metal {
                true => "a GPU trace of no layers would be empty".to_owned(),
                false => CAPTURE_ELSEWHERE.to_owned(),
            },
        });
    }
    let wished = options.gpu_layers.filter(|&layers| layers > 0);
    let choice = match options.device {
        DeviceChoice::Cpu => {
            let reason =
                |layers| format!("the device is cpu, so {layers} GPU layers run there too");
            return Ok((None, wished.map(reason)));
        }
        DeviceChoice::Auto => DeviceChoice::Metal,
        choice => choice,
    };
    match (open(choice, &options.metal), options.device) {
        (Ok(accelerator), _) => Ok((Some(accelerator), None)),
        (Err(reason), DeviceChoice::Auto) if !options.metal.needs_gpu() => {
            let wished = wished.is_some();
            let expected = cfg!(target_vendor = "apple") && !options.metal.disabled;
            Ok((None, (wished || expected).then_some(reason)))
        }
        (Err(reason), _) => Err(OffloadError::Missing {
            device: choice.name(),
            reason,
        }),
    }
}

pub(super) fn open(choice: DeviceChoice, settings: &MetalSettings) -> Result<Accelerator, String> {
    match choice {
        DeviceChoice::SoftMetal => soft_metal(settings),
        _ if settings.disabled => Err("MINFER_DISABLE_MPS is set".to_owned()),
        _ => metal(settings),
    }
}

#[cfg(any(target_vendor = "apple", minfer_check_apple))]
fn metal(settings: &MetalSettings) -> Result<Accelerator, String> {
    use minfer_metal::device::apple::{AppleDevice, AppleOptions};
    let options = AppleOptions {
        metallib: settings.metallib.clone(),
        capture: settings.capture.clone(),
        // Without labels nobody finds a kernel in a trace.
        debug_groups: settings.capture.is_some(),
    };
    match AppleDevice::system_default(options) {
        Ok(Some(device)) => Ok(Accelerator::new(DeviceChoice::Metal, device)),
        Ok(None) => Err("this machine has no Metal device".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(any(target_vendor = "apple", minfer_check_apple)))]
fn metal(settings: &MetalSettings) -> Result<Accelerator, String> {
    Err(match settings.capture {
        Some(_) => CAPTURE_ELSEWHERE.to_owned(),
        None => "Metal exists on Apple's systems only".to_owned(),
    })
}

#[cfg(all(feature = "softmetal", target_os = "linux"))]
fn soft_metal(settings: &MetalSettings) -> Result<Accelerator, String> {
    use minfer_softmetal::{Mode, Options, SoftDevice};
    let device = SoftDevice::new(Options {
        mode: Mode::Unchecked,
        cache: settings.kernel_cache.clone(),
        ..Options::default()
    });
    Ok(Accelerator::new(DeviceChoice::SoftMetal, device))
}

#[cfg(not(all(feature = "softmetal", target_os = "linux")))]
fn soft_metal(_: &MetalSettings) -> Result<Accelerator, String> {
    Err(match cfg!(target_os = "linux") {
        true => "this program was built without it: build with `--features softmetal`".to_owned(),
        false => "it runs on Linux only".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use minfer_metal::metallib::Metallib;

    use super::*;

    fn error(device: DeviceChoice, gpu_layers: Option<usize>, metal: MetalSettings) -> String {
        let options = EngineOptions {
            device,
            gpu_layers,
            metal,
            ..EngineOptions::default()
        };
        let selected = select(&options).map(|(device, _)| device.is_some());
        selected.expect_err("an option was dropped").to_string()
    }

    #[test]
    fn what_only_a_gpu_can_follow_is_not_dropped_without_one() {
        let capture = || MetalSettings {
            capture: Some("step.gputrace".into()),
            ..MetalSettings::default()
        };
        for device in [DeviceChoice::Cpu, DeviceChoice::SoftMetal] {
            assert!(error(device, None, capture()).contains("minfer metal export"));
        }
        for device in [DeviceChoice::Auto, DeviceChoice::Metal] {
            assert!(error(device, Some(0), capture()).contains("no layers"));
        }
        let metallib = || MetalSettings {
            metallib: Metallib::File("/nowhere/kernels.metallib".into()),
            ..MetalSettings::default()
        };
        for device in [DeviceChoice::Auto, DeviceChoice::Metal] {
            let error = error(device, None, metallib());
            let is_apple = cfg!(target_vendor = "apple");
            assert_eq!(
                error.contains("/nowhere/kernels.metallib"),
                is_apple,
                "{error}"
            );
        }
    }
}
