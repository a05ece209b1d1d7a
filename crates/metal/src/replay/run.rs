//! Runs the dispatches of a bundle.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::bundle::Bundle;
use super::compare::Comparison;
use super::error::ReplayError;
use super::format::{Binding, Description, Launch};
use crate::device::{
    Argument, Buffer, BufferRange, Device, DeviceError, Dispatch, LibrarySource, Size, SourceFile,
};

/// How a dispatch went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// File of its description.
    pub dispatch: String,
    /// Its kernel.
    pub kernel: String,
    /// Its label.
    pub label: String,
    /// Why it did not run to the end, if so.
    pub failure: Option<String>,
    /// Each memory that it writes; nothing after a failure.
    pub memory: Vec<Comparison>,
}

impl Outcome {
    /// Whether it ran and left every byte as recorded.
    pub fn is_equal(&self) -> bool {
        self.failure.is_none() && self.memory.iter().all(Comparison::is_equal)
    }
}

/// A line, and more for what is not as recorded.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (&self.failure, self.is_equal()) {
            (Some(_), _) => "failed",
            (None, true) => "equal",
            (None, false) => "different",
        };
        write!(f, "{verdict} {} ({})", self.dispatch, self.label)?;
        if let Some(failure) = &self.failure {
            write!(f, "\n  {failure}")?;
        }
        let mut different = self.memory.iter().filter(|memory| !memory.is_equal());
        different.try_for_each(|memory| write!(f, "\n  {memory}"))
    }
}

impl Bundle {
    /// Runs every dispatch on `device`, each for `limit` at most, from the recorded memory, and compares what it leaves.
    /// A dispatch that fails does not keep the others from running.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn replay<D: Device>(
        &self,
        device: &D,
        limit: Duration,
    ) -> Result<Vec<Outcome>, ReplayError> {
        let mut libraries = HashMap::new();
        for (_, description) in self.dispatches() {
            let source = &description.launch.source;
            if !libraries.contains_key(source) {
                let library = compile(device, source, &self.read_text(source)?);
                libraries.insert(source.clone(), library);
            }
        }
        let run = |(file, description): (&str, &Description)| {
            let memory = self.contents(description)?;
            let result = match &libraries[&description.launch.source] {
                Ok(library) => launch(device, library, description, &memory, limit),
                Err(error) => Err(error.clone()),
            };
            let (memory, failure) = match result {
                Ok(comparisons) => (comparisons, None),
                Err(failure) => (Vec::new(), Some(failure)),
            };
            Ok(Outcome {
                dispatch: file.to_owned(),
                kernel: description.launch.kernel.clone(),
                label: description.label.clone(),
                failure,
                memory,
            })
        };
        self.dispatches().map(run).collect()
    }

    fn contents(&self, description: &Description) -> Result<Vec<Contents>, ReplayError> {
        let memory = description.memory.iter().map(|memory| {
            let after = memory.after.as_deref().map(|file| self.read(file));
            Ok(Contents {
                before: self.read(&memory.before)?,
                after: after.transpose()?,
            })
        });
        memory.collect()
    }
}

/// Contents of a memory.
struct Contents {
    before: Vec<u8>,
    after: Option<Vec<u8>>,
}

fn compile<D: Device>(device: &D, file: &str, text: &str) -> Result<D::Library, String> {
    let main = SourceFile { name: file, text };
    // The recorded text has its headers in place.
    let source = LibrarySource::new(main, &[]).map_err(|error| error.to_string())?;
    device.library(&source).map_err(|error| error.to_string())
}

fn launch<D: Device>(
    device: &D,
    library: &D::Library,
    description: &Description,
    contents: &[Contents],
    limit: Duration,
) -> Result<Vec<Comparison>, String> {
    let ran = run(device, library, description, contents, limit);
    let buffers = ran.map_err(|error| error.to_string())?;
    let mut comparisons = Vec::new();
    for (at, (contents, buffer)) in contents.iter().zip(&buffers).enumerate() {
        let Some(after) = &contents.after else {
            continue;
        };
        let mut found = vec![0; after.len()];
        let read = buffer.read(0, &mut found);
        read.map_err(|error| error.to_string())?;
        let label = &description.memory[at].label;
        comparisons.push(Comparison::new(at, label, after, &found));
    }
    Ok(comparisons)
}

/// Runs a dispatch; the buffers it ran on.
fn run<D: Device>(
    device: &D,
    library: &D::Library,
    description: &Description,
    contents: &[Contents],
    limit: Duration,
) -> Result<Vec<D::Buffer>, DeviceError> {
    let launch = &description.launch;
    let constants = launch.constants.iter();
    let constants: Vec<_> = constants
        .filter_map(|constant| Some((constant.index, constant.value()?)))
        .collect();
    let pipeline = device.pipeline(library, &launch.kernel, &constants)?;
    let mut buffers = Vec::new();
    for (contents, memory) in contents.iter().zip(&description.memory) {
        // No device has empty buffers.
        let buffer = device.buffer(contents.before.len().max(1), &memory.label)?;
        buffer.write(0, &contents.before)?;
        buffers.push(buffer);
    }
    let dispatch = Dispatch {
        label: &description.label,
        pipeline: &pipeline,
        arguments: &arguments(launch, &buffers),
        grid: launch.grid(),
        threadgroup: Size(launch.threadgroup),
    };
    device.run(&dispatch, limit)?;
    Ok(buffers)
}

fn arguments<'a, B: Buffer>(launch: &'a Launch, buffers: &'a [B]) -> Vec<Argument<'a, B>> {
    let bind = |binding: &Binding| Argument::Buffer {
        index: binding.index,
        range: BufferRange {
            buffer: &buffers[binding.memory],
            offset: binding.offset,
            bytes: binding.bytes,
        },
        access: binding.role.into(),
    };
    let values = launch.values.iter().map(|value| Argument::Bytes {
        index: value.index,
        bytes: &value.bytes.0,
    });
    let threadgroup = launch.threadgroup_memory.iter();
    let threadgroup = threadgroup.map(|memory| Argument::Threadgroup {
        index: memory.index,
        bytes: memory.bytes,
    });
    let buffers = launch.buffers.iter().map(bind);
    buffers.chain(values).chain(threadgroup).collect()
}
