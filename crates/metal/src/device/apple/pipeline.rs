//! Pipelines: kernels with their function constants.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLBinding, MTLBindingType, MTLBufferBinding, MTLComputePipelineDescriptor,
    MTLComputePipelineReflection, MTLComputePipelineState, MTLDataType, MTLDevice, MTLFunction,
    MTLFunctionConstantValues, MTLLibrary, MTLPipelineOption,
};

use super::library::AppleLibrary;
use super::{Object, message};
use crate::device::{ConstantValue, DeviceError, Pipeline};

/// A kernel with values for its function constants. Clones are the same pipeline.
#[derive(Clone)]
pub struct ApplePipeline(Arc<Inner>);

struct Inner {
    kernel: String,
    metal: Object<dyn MTLComputePipelineState>,
    /// The parameters that the kernel uses.
    parameters: Vec<Parameter>,
}

/// A parameter that a dispatch must bind.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) slot: Slot,
}

/// Where a parameter is bound.
#[derive(Debug)]
pub(super) enum Slot {
    /// `[[buffer(index)]]`, with the size and alignment of what it points to, in bytes.
    Buffer {
        index: u32,
        bytes: usize,
        align: usize,
    },
    /// `[[threadgroup(index)]]`
    Threadgroup { index: u32 },
}

impl ApplePipeline {
    pub(super) fn new(
        device: &ProtocolObject<dyn MTLDevice>,
        library: &AppleLibrary,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
    ) -> Result<Self, DeviceError> {
        autoreleasepool(|_| {
            if !library.kernels().iter().any(|known| known == kernel) {
                return Err(DeviceError::UnknownKernel {
                    library: library.name().to_owned(),
                    kernel: kernel.to_owned(),
                });
            }
            let function = specialize(library, kernel, constants)?;
            let descriptor = MTLComputePipelineDescriptor::new();
            descriptor.setLabel(Some(&NSString::from_str(kernel)));
            descriptor.setComputeFunction(Some(&function));
            let mut reflection = None;
            let metal = device.newComputePipelineStateWithDescriptor_options_reflection_error(
                &descriptor,
                MTLPipelineOption::BindingInfo | MTLPipelineOption::BufferTypeInfo,
                Some(&mut reflection),
            );
            let metal = metal.map_err(|error| DeviceError::Pipeline {
                kernel: kernel.to_owned(),
                message: message(&error),
            })?;
            Ok(ApplePipeline(Arc::new(Inner {
                kernel: kernel.to_owned(),
                metal,
                parameters: reflection.as_deref().map(parameters).unwrap_or_default(),
            })))
        })
    }

    pub(super) fn metal(&self) -> &ProtocolObject<dyn MTLComputePipelineState> {
        &self.0.metal
    }

    pub(super) fn parameters(&self) -> &[Parameter] {
        &self.0.parameters
    }

    /// Bytes of the threadgroup variables that the kernel declares itself.
    pub(super) fn static_threadgroup_memory(&self) -> usize {
        self.0.metal.staticThreadgroupMemoryLength()
    }
}

impl Pipeline for ApplePipeline {
    fn kernel(&self) -> &str {
        &self.0.kernel
    }

    fn max_threads_per_threadgroup(&self) -> usize {
        self.0.metal.maxTotalThreadsPerThreadgroup()
    }
}

/// The function with its constants fixed.
fn specialize(
    library: &AppleLibrary,
    kernel: &str,
    constants: &[(u32, ConstantValue)],
) -> Result<Object<dyn MTLFunction>, DeviceError> {
    let name = NSString::from_str(kernel);
    if let Some(generic) = library.metal().newFunctionWithName(&name) {
        check_constants(&generic, kernel, constants)?;
    }
    let values = MTLFunctionConstantValues::new();
    for &(index, value) in constants {
        let fits = u16::try_from(index).map_err(|_| DeviceError::Constant {
            kernel: kernel.to_owned(),
            index,
            message: format!("the highest index is {}", u16::MAX),
        })?;
        set_constant(&values, fits, value);
    }
    let function = library
        .metal()
        .newFunctionWithName_constantValues_error(&name, &values);
    function.map_err(|error| DeviceError::Pipeline {
        kernel: kernel.to_owned(),
        message: message(&error),
    })
}

/// Metal ignores a value that no constant of the kernel takes, and reinterprets one of another type.
fn check_constants(
    function: &ProtocolObject<dyn MTLFunction>,
    kernel: &str,
    values: &[(u32, ConstantValue)],
) -> Result<(), DeviceError> {
    let dictionary = function.functionConstantsDictionary();
    for constant in dictionary.to_vecs().1 {
        let given = values
            .iter()
            .find(|(index, _)| *index as usize == constant.index());
        let wrong = match given {
            Some((_, value)) if data_type(*value) != constant.r#type() => {
                format!(
                    "the constant `{}` has the data type {:?}, the value is {value:?}",
                    constant.name(),
                    constant.r#type()
                )
            }
            None if constant.required() => {
                format!("the constant `{}` needs a value", constant.name())
            }
            _ => continue,
        };
        return Err(DeviceError::Constant {
            kernel: kernel.to_owned(),
            index: u32::try_from(constant.index()).unwrap_or(u32::MAX),
            message: wrong,
        });
    }
    Ok(())
}

fn data_type(value: ConstantValue) -> MTLDataType {
    match value {
        ConstantValue::Bool(_) => MTLDataType::Bool,
        ConstantValue::I32(_) => MTLDataType::Int,
        ConstantValue::U32(_) => MTLDataType::UInt,
        ConstantValue::U16(_) => MTLDataType::UShort,
        ConstantValue::F32(_) => MTLDataType::Float,
    }
}

/// Indices are 16-bit numbers (Metal Shading Language specification, "Function Constants").
fn set_constant(values: &MTLFunctionConstantValues, index: u16, value: ConstantValue) {
    let pointer: NonNull<c_void> = match &value {
        ConstantValue::Bool(value) => NonNull::from(value).cast(),
        ConstantValue::I32(value) => NonNull::from(value).cast(),
        ConstantValue::U32(value) => NonNull::from(value).cast(),
        ConstantValue::U16(value) => NonNull::from(value).cast(),
        ConstantValue::F32(value) => NonNull::from(value).cast(),
    };
    // SAFETY: the pointer is to a value of the type named, which Metal copies, and the index is one that MSL allows.
    unsafe { values.setConstantValue_type_atIndex(pointer, data_type(value), usize::from(index)) };
}

/// The parameters that must be bound. Empty before macOS 13, which has no such list.
fn parameters(reflection: &MTLComputePipelineReflection) -> Vec<Parameter> {
    if !reflection.respondsToSelector(sel!(bindings)) {
        return Vec::new();
    }
    let bindings = reflection.bindings();
    bindings
        .iter()
        .filter(|binding| binding.isUsed())
        .filter_map(|binding| {
            Some(Parameter {
                name: binding.name().to_string(),
                slot: slot(binding)?,
            })
        })
        .collect()
}

fn slot(binding: Retained<ProtocolObject<dyn MTLBinding>>) -> Option<Slot> {
    let index = u32::try_from(binding.index()).ok()?;
    match binding.r#type() {
        MTLBindingType::ThreadgroupMemory => Some(Slot::Threadgroup { index }),
        MTLBindingType::Buffer => {
            // SAFETY: bindings of this type conform to `MTLBufferBinding` (its documentation).
            let buffer: Object<dyn MTLBufferBinding> = unsafe { Retained::cast_unchecked(binding) };
            Some(Slot::Buffer {
                index,
                bytes: buffer.bufferDataSize(),
                align: buffer.bufferAlignment().max(1),
            })
        }
        _ => None,
    }
}
