//! Compiled kernels.

use std::collections::HashMap;

use super::{OpError, number};
use crate::device::{ConstantValue, Device, SourceFile};
use crate::kernels;

/// A kernel with its function constants.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    /// File that has it.
    pub file: SourceFile<'static>,
    /// Its name.
    pub name: &'static str,
    /// Function constants, each given by its index.
    pub constants: &'a [(u32, ConstantValue)],
}

/// Function constants from their indices and values.
pub(super) fn constants<const N: usize>(
    op: &'static str,
    values: [(u32, usize); N],
) -> Result<[(u32, ConstantValue); N], OpError> {
    let mut constants = [(0, ConstantValue::U32(0)); N];
    for (constant, (index, value)) in constants.iter_mut().zip(values) {
        let value = number(op, "a function constant", value)?;
        *constant = (index, ConstantValue::U32(value));
    }
    Ok(constants)
}

/// One kernel's pipelines by function constants, of which there are a handful.
type Variants<P> = Vec<(Vec<(u32, ConstantValue)>, P)>;

/// The kernels of one device: a file is compiled when one of its kernels is first asked for.
pub struct Kernels<D: Device> {
    /// By file.
    libraries: HashMap<&'static str, D::Library>,
    /// By file and kernel.
    pipelines: HashMap<(&'static str, &'static str), Variants<D::Pipeline>>,
}

impl<D: Device> Default for Kernels<D> {
    fn default() -> Self {
        Kernels {
            libraries: HashMap::new(),
            pipelines: HashMap::new(),
        }
    }
}

impl<D: Device> Kernels<D> {
    /// A kernel ready to run on `device`, always the same one.
    pub fn pipeline(&mut self, device: &D, kernel: Kernel<'_>) -> Result<D::Pipeline, OpError> {
        let key = (kernel.file.name, kernel.name);
        let variants = self.pipelines.get(&key).into_iter().flatten();
        for (constants, pipeline) in variants {
            if constants == kernel.constants {
                return Ok(pipeline.clone());
            }
        }
        let library = self.library(device, kernel.file)?;
        let pipeline = device.pipeline(&library, kernel.name, kernel.constants)?;
        let variants = self.pipelines.entry(key).or_default();
        variants.push((kernel.constants.to_vec(), pipeline.clone()));
        Ok(pipeline)
    }

    fn library(&mut self, device: &D, file: SourceFile<'static>) -> Result<D::Library, OpError> {
        if let Some(library) = self.libraries.get(file.name) {
            return Ok(library.clone());
        }
        let library = device.library(&kernels::library(file)?)?;
        self.libraries.insert(file.name, library.clone());
        Ok(library)
    }
}
