//! Libraries and pipelines.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use minfer_metal::device::{ConstantValue, DeviceError, LibrarySource, Pipeline};

use crate::compile::{Build, Compiler};
use crate::front;
use crate::module::{Constant, Kernel, Module, Parameter, Slot, SourcePlace};

/// A compiled library.
#[derive(Clone)]
pub struct SoftLibrary(pub(super) Arc<Loaded>);

/// A loaded library and its source.
pub(super) struct Loaded {
    pub(super) module: Module,
    build: Build,
    lines: HashMap<String, Vec<String>>,
}

impl Loaded {
    /// The text of a line of the source.
    pub(super) fn line(&self, place: &SourcePlace) -> Option<&str> {
        let lines = self.lines.get(&place.file)?;
        let line = lines.get((place.line as usize).checked_sub(1)?)?;
        Some(line)
    }
}

impl SoftLibrary {
    pub(super) fn new(
        compiler: &Compiler,
        source: &LibrarySource,
        build: Build,
    ) -> Result<Self, DeviceError> {
        let rejected = |message: String| DeviceError::Compile {
            library: source.name().to_owned(),
            message,
        };
        let unit = front::translate(source).map_err(|error| rejected(error.to_string()))?;
        let product = compiler
            .compile(&unit, build)
            .map_err(|error| rejected(error.to_string()))?;
        let module = Module::load(source.name(), product).map_err(rejected)?;
        Ok(SoftLibrary(Arc::new(Loaded {
            module,
            build,
            lines: front::lines(source.text()),
        })))
    }

    /// An error unless the library was made for devices like this one.
    pub(super) fn check_build(&self, build: Build) -> Result<(), DeviceError> {
        let message = match (self.0.build, build) {
            (Build::Unchecked, Build::Checked) => {
                "it was compiled without checks, and this device checks"
            }
            (Build::Checked, Build::Unchecked) => {
                "it was compiled with checks, and this device does not check"
            }
            _ => return Ok(()),
        };
        Err(DeviceError::Library {
            library: self.0.module.name.clone(),
            message: message.to_owned(),
        })
    }

    /// Names of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.0
            .module
            .kernels
            .iter()
            .map(|kernel| kernel.name.as_str())
    }
}

/// A kernel with values for its function constants.
#[derive(Clone)]
pub struct SoftPipeline {
    pub(super) library: Arc<Loaded>,
    index: usize,
    constants: Vec<(u32, ConstantValue)>,
    max_threads: usize,
    /// Parameters that the function constants leave out.
    absent: Vec<Slot>,
}

impl SoftPipeline {
    pub(super) fn new(
        library: &SoftLibrary,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
        device_limit: usize,
    ) -> Result<Self, DeviceError> {
        let module = &library.0.module;
        let index = module.kernels.iter().position(|known| known.name == kernel);
        let index = index.ok_or_else(|| DeviceError::UnknownKernel {
            library: module.name.clone(),
            kernel: kernel.to_owned(),
        })?;
        for (index, value) in constants {
            check_constant(&module.constants, *index, *value).map_err(|message| {
                DeviceError::Constant {
                    kernel: kernel.to_owned(),
                    index: *index,
                    message,
                }
            })?;
        }
        let max_threads = module.kernels[index].max_threads.unwrap_or(device_limit);
        let mut pipeline = SoftPipeline {
            library: Arc::clone(&library.0),
            index,
            constants: constants.to_vec(),
            max_threads: max_threads.min(device_limit),
            absent: Vec::new(),
        };
        if !pipeline.set_constants() {
            return Err(DeviceError::Library {
                library: module.name.clone(),
                message: format!(
                    "with the function constants given for `{kernel}`, a value divides by zero or shifts by its width"
                ),
            });
        }
        let left_out = |parameter: &&Parameter| match parameter.present {
            // SAFETY: it reads a function constant of this OS thread, which has just been set.
            Some(present) => unsafe { !present() },
            None => false,
        };
        let absent = pipeline.entry().parameters.iter().filter(left_out);
        pipeline.absent = absent.map(|parameter| parameter.slot).collect();
        Ok(pipeline)
    }

    /// The kernel's parameters with these function constants.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let all = self.entry().parameters.iter();
        all.filter(|parameter| !self.absent.contains(&parameter.slot))
    }

    pub(super) fn entry(&self) -> &Kernel {
        &self.library.module.kernels[self.index]
    }

    /// Addresses on the calling OS thread, and names, of the constants that should have a value and have none, and
    /// of what is computed from them.
    pub(super) fn undefined_constants(&self) -> Vec<(Range<usize>, String)> {
        let given = |index| self.constants.iter().any(|(known, _)| *known == index);
        let constants = self.library.module.constants.iter();
        let missing = constants.filter(|constant| !constant.optional && !given(constant.index));
        let place = |storage: unsafe extern "C" fn() -> *mut c_void, size, name: &str| {
            // SAFETY: it returns the address of a variable.
            let start = unsafe { storage() }.addr();
            (start..start + size, name.to_owned())
        };
        let missing =
            missing.map(|constant| place(constant.storage, constant.size, &constant.name));
        let mut undefined: Vec<_> = missing.collect();
        // Each comes after what it is computed from.
        for derived in &self.library.module.derived {
            let is_undefined = |name: &String| undefined.iter().any(|(_, known)| known == name);
            if derived.depends_on.iter().any(is_undefined) {
                undefined.push(place(derived.storage, derived.size, &derived.name));
            }
        }
        undefined
    }

    /// Gives the function constants their values on the calling OS thread; whether all that depends on them has one.
    pub(super) fn set_constants(&self) -> bool {
        let module = &self.library.module;
        for constant in &module.constants {
            let value = self
                .constants
                .iter()
                .find(|(index, _)| *index == constant.index);
            // SAFETY: both functions return the addresses of variables of this OS thread, of the size
            // that the table gives and `check_constant` compared.
            unsafe {
                *(constant.defined)() = value.is_some();
                let to: *mut u8 = (constant.storage)().cast();
                match value {
                    Some((_, value)) => with_bytes(*value, |bytes| {
                        to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                    }),
                    None => to.write_bytes(0, constant.size),
                }
            }
        }
        module.derive_constants()
    }
}

fn check_constant(known: &[Constant], index: u32, value: ConstantValue) -> Result<(), String> {
    let bytes = with_bytes(value, <[u8]>::len);
    let mut constants = known.iter().filter(|constant| constant.index == index);
    let first = constants.next().ok_or("the library has no such constant")?;
    // Nothing keeps a source from giving two constants one index.
    match std::iter::once(first)
        .chain(constants)
        .find(|constant| constant.size != bytes)
    {
        None => Ok(()),
        Some(other) => Err(format!(
            "the value has {bytes} bytes, the constant {}",
            other.size
        )),
    }
}

fn with_bytes<R>(value: ConstantValue, then: impl FnOnce(&[u8]) -> R) -> R {
    match value {
        ConstantValue::Bool(value) => then(&[u8::from(value)]),
        ConstantValue::I32(value) => then(&value.to_ne_bytes()),
        ConstantValue::U32(value) => then(&value.to_ne_bytes()),
        ConstantValue::U16(value) => then(&value.to_ne_bytes()),
        ConstantValue::F32(value) => then(&value.to_ne_bytes()),
    }
}

impl Pipeline for SoftPipeline {
    fn kernel(&self) -> &str {
        &self.entry().name
    }

    fn max_threads_per_threadgroup(&self) -> usize {
        self.max_threads
    }
}
