//! Running one step of a plan. Nothing here allocates once the host buffers have their size.

use crate::backend::{Backend, BackendError, Operand, StepRows, Task};
use crate::error::GraphError;
use crate::plan::{Copy, Plan, PlannedNode};
use crate::profile::{OpProfile, timed};
use crate::step::StepInputs;
use crate::trace::{Captures, Trace};

/// Host memory reused by all steps.
#[derive(Debug, Default)]
pub(crate) struct HostBuffers {
    /// A value on its way from one backend to another.
    transfer: Vec<f32>,
    /// Values of the outputs, one after another.
    values: Vec<f32>,
    spans: Vec<OutputSpan>,
    /// A mark per KV cell, for the check that no cell is stored to twice.
    pub stored: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct OutputSpan {
    start: usize,
    width: usize,
    rows: usize,
}

impl OutputSpan {
    fn end(self) -> usize {
        self.start + self.width * self.rows
    }
}

impl HostBuffers {
    /// Grows the buffers to what a full step of the plan needs.
    pub fn reserve(&mut self, plan: &Plan) {
        let full = plan.limits.full_step();
        let size = |operand: Operand| operand.width * operand.rows.total();
        let copies = plan.splits.iter().flat_map(|split| &split.copies);
        let transfer = copies.map(|copy| size(copy.from.at(full))).max();
        grow(&mut self.transfer, transfer.unwrap_or(0));
        let outputs = plan.outputs.iter().map(|output| size(output.at(full)));
        grow(&mut self.values, outputs.sum());
        self.spans.reserve(plan.outputs.len());
        if self.stored.len() < plan.limits.cells() {
            self.stored.resize(plan.limits.cells(), false);
        }
    }

    /// The outputs of the last step.
    pub fn outputs(&self) -> Outputs<'_> {
        Outputs {
            values: &self.values,
            spans: &self.spans,
        }
    }
}

fn grow(buffer: &mut Vec<f32>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
}

/// Values of a graph's outputs after a step, in the order of [`crate::Graph::outputs`].
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'a> {
    values: &'a [f32],
    spans: &'a [OutputSpan],
}

impl<'a> Outputs<'a> {
    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the graph has no outputs.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// All rows of output `i`, one after another; empty if there is no such output.
    pub fn values(&self, i: usize) -> &'a [f32] {
        let span = self.spans.get(i);
        span.map_or(&[], |span| &self.values[span.start..span.end()])
    }

    /// Row `row` of output `i`, if it exists.
    pub fn row(&self, i: usize, row: usize) -> Option<&'a [f32]> {
        let width = self.spans.get(i)?.width;
        self.values(i).chunks_exact(width).nth(row)
    }
}

/// One step in progress.
pub(crate) struct Runner<'a> {
    pub plan: &'a Plan,
    pub backends: &'a mut [Box<dyn Backend>],
    pub host: &'a mut HostBuffers,
    pub trace: &'a mut Option<Box<dyn Trace>>,
    pub profile: &'a mut Option<OpProfile>,
}

impl<'a> Runner<'a> {
    /// Writes the inputs, runs all splits and reads the outputs. After an error nothing is left enqueued.
    pub fn run(&mut self, step: &StepInputs<'_>) -> Result<(), GraphError> {
        if let Some(profile) = self.profile {
            profile.begin_step();
        }
        let mut captures = Captures::default();
        let result = self.run_splits(step, &mut captures);
        if result.is_err() {
            captures.release(self.backends);
            abandon(self.backends);
        }
        result
    }

    fn run_splits(
        &mut self,
        step: &StepInputs<'_>,
        captures: &mut Captures<'a>,
    ) -> Result<(), GraphError> {
        let plan = self.plan;
        self.write_inputs(step)?;
        for split in &plan.splits {
            for copy in &split.copies {
                self.copy(copy, step.rows)?;
            }
            for planned in &split.nodes {
                let output = planned.output.at(step.rows);
                if output.rows.total() == 0 {
                    continue;
                }
                self.execute(planned, split.backend, step.rows)?;
                if let Some(trace) = self.trace.as_deref_mut() {
                    let node = &plan.graph.nodes[planned.node];
                    captures.take(trace, self.backends, split.backend, node, output)?;
                }
            }
            let device = self.backends[split.backend].as_mut();
            timed(self.profile, "synchronize", device, |device| {
                device.synchronize()
            })
            .map_err(GraphError::backend(|| "end of a split"))?;
            if let Some(trace) = self.trace.as_deref_mut() {
                captures.finish(trace, self.backends)?;
            }
        }
        self.read_outputs(step.rows)
    }

    fn write_inputs(&mut self, step: &StepInputs<'_>) -> Result<(), GraphError> {
        for (input, spec) in &self.plan.inputs {
            let data = step.bytes(*input);
            if !data.is_empty() {
                let buffer = spec.at(step.rows).buffer;
                let device = self.backends[spec.backend].as_mut();
                timed(self.profile, "input", device, |device| {
                    device.write(buffer, 0, data)
                })
                .map_err(GraphError::backend(|| format!("writing input {input:?}")))?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, copy: &Copy, rows: StepRows) -> Result<(), GraphError> {
        let (from, to) = (copy.from.at(rows), copy.to.at(rows));
        let len = from.width * from.rows.total();
        if len == 0 {
            return Ok(());
        }
        let values = &mut self.host.transfer[..len];
        let device = self.backends[copy.from.backend].as_mut();
        timed(self.profile, "copy out", device, |device| {
            read_value(device, from, values)
        })
        .map_err(GraphError::backend(|| "copying between backends"))?;
        let bytes = bytemuck::cast_slice(values);
        let device = self.backends[copy.to.backend].as_mut();
        timed(self.profile, "copy in", device, |device| {
            device.write(to.buffer, 0, bytes)
        })
        .map_err(GraphError::backend(|| "copying between backends"))
    }

    fn execute(
        &mut self,
        planned: &PlannedNode,
        backend: usize,
        rows: StepRows,
    ) -> Result<(), GraphError> {
        let inputs = planned.inputs.map(|input| input.at(rows));
        let graph = &self.plan.graph;
        let node = &graph.nodes[planned.node];
        let task = Task {
            graph,
            node,
            output: planned.output.at(rows),
            inputs: &inputs[..planned.input_count],
            kv: planned.kv,
        };
        let device = self.backends[backend].as_mut();
        timed(self.profile, node.op.name(), device, |device| {
            device.execute(task)
        })
        .map_err(GraphError::backend(|| {
            format!("node {} ({})", node.name, node.op.name())
        }))
    }

    fn read_outputs(&mut self, rows: StepRows) -> Result<(), GraphError> {
        self.host.spans.clear();
        let mut start = 0;
        for spec in &self.plan.outputs {
            let output = spec.at(rows);
            let span = OutputSpan {
                start,
                width: output.width,
                rows: output.rows.total(),
            };
            let values = &mut self.host.values[start..span.end()];
            let device = self.backends[spec.backend].as_mut();
            timed(self.profile, "output", device, |device| {
                read_value(device, output, values)
            })
            .map_err(GraphError::backend(|| "reading an output"))?;
            start = span.end();
            self.host.spans.push(span);
        }
        Ok(())
    }
}

/// Drops what is enqueued, whose results nobody reads.
pub(crate) fn abandon(backends: &mut [Box<dyn Backend>]) {
    for backend in backends {
        backend.abandon();
    }
}

/// Reads a value row after row without the gaps it may have in its buffer.
pub(crate) fn read_value(
    backend: &mut dyn Backend,
    value: Operand,
    into: &mut [f32],
) -> Result<(), BackendError> {
    if value.stride == value.width {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        return match bytes.is_empty() {
            true => Ok(()),
            false => backend.read(value.buffer, 4 * value.offset, bytes),
        };
    }
    for (row, into) in into.chunks_exact_mut(value.width).enumerate() {
        let first = value.offset + row * value.stride;
        backend.read(value.buffer, 4 * first, bytemuck::cast_slice_mut(into))?;
    }
    Ok(())
}
