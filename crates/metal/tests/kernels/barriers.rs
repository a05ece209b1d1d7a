//! Every shipped kernel is launched, and every barrier is needed: without it, the checker reports something.

use std::collections::BTreeSet;

use minfer_metal::device::{Grid, Size, SourceFile};
use minfer_metal::kernels;
use minfer_softmetal::lint::barriers;
use minfer_softmetal::report::SourcePlace;
use minfer_softmetal::{Options, SoftDevice};

use crate::launch::{Launch, Operand, Outcome, library, options};
use crate::{
    attention, elementwise, flash_decode, flash_prefill, fused_ffn, fused_matmul, fused_qkv, gemm,
    kv, kv_rotate, kv_stage, matvec, matvec_batch, norm, rope, rows, split_attention, three_pass,
    touch,
};

/// Small launches of all kernels.
fn launches() -> Vec<Launch> {
    [
        attention::launches,
        elementwise::launches,
        flash_decode::launches,
        flash_prefill::launches,
        fused_ffn::launches,
        fused_matmul::launches,
        fused_qkv::launches,
        gemm::launches,
        kv::launches,
        kv_rotate::launches,
        kv_stage::launches,
        matvec::launches,
        matvec_batch::launches,
        norm::launches,
        rope::launches,
        rows::launches,
        split_attention::launches,
        three_pass::launches,
        touch::launches,
    ]
    .iter()
    .flat_map(|family| family())
    .collect()
}

/// Barriers of a file and its headers that no launch passes, or that every launch can do without, unless the source
/// has a reason for them.
fn unproved(file: SourceFile<'static>, launches: &[Launch]) -> Vec<String> {
    let source = kernels::library(file).unwrap();
    let listed = barriers(&source).unwrap();
    let launches: Vec<_> = launches
        .iter()
        .filter(|launch| launch.file.name == file.name)
        .map(|launch| (launch, passed(launch)))
        .collect();
    let mut unproved = Vec::new();
    for barrier in listed.iter().filter(|barrier| barrier.reason.is_none()) {
        let place = &barrier.place;
        let passing: Vec<_> = launches
            .iter()
            .filter(|(_, passed)| passed.contains(place))
            .collect();
        let why = if passing.is_empty() {
            "no launch passes it"
        } else if passing.iter().any(|(launch, _)| is_missed(launch, place)) {
            continue;
        } else {
            "nothing is reported without it"
        };
        unproved.push(format!("{}:{}: {why}", place.file, place.line));
    }
    unproved
}

fn passed(launch: &Launch) -> BTreeSet<SourcePlace> {
    let Outcome {
        reports, barriers, ..
    } = launch.run_with(options());
    assert!(reports.is_empty(), "{}: {}", launch.kernel, reports[0]);
    barriers.into_iter().collect()
}

fn is_missed(launch: &Launch, place: &SourcePlace) -> bool {
    let options = Options {
        without_barrier: Some(place.clone()),
        ..options()
    };
    !launch.run_with(options).reports.is_empty()
}

/// Every kernel of every file.
pub fn shipped() -> Vec<(&'static str, String)> {
    let device = SoftDevice::new(options());
    let of_file = |file: &SourceFile<'static>| -> Vec<_> {
        let library = library(&device, *file, true);
        let kernels = library.kernels();
        kernels
            .map(|kernel| (file.name, kernel.to_owned()))
            .collect()
    };
    kernels::ALL.iter().flat_map(of_file).collect()
}

#[test]
fn every_kernel_is_launched() {
    let launches = launches();
    let launched: BTreeSet<_> = launches
        .iter()
        .map(|launch| (launch.file.name, launch.kernel.as_str()))
        .collect();
    for (file, kernel) in &shipped() {
        assert!(
            launched.contains(&(*file, kernel.as_str())),
            "{file}: {kernel}"
        );
    }
}

#[test]
fn every_barrier_of_every_kernel_is_needed() {
    let launches = launches();
    let unproved: Vec<_> = kernels::ALL
        .iter()
        .flat_map(|file| unproved(*file, &launches))
        .collect();
    assert_eq!(unproved, [""; 0]);
}

const GATE: SourceFile<'static> = SourceFile {
    name: "gate.metal",
    text: "\
#include <metal_stdlib>
using namespace metal;
kernel void launched(constant uint& count [[buffer(0)]], device float* y [[buffer(1)]],
                     uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = float(i);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = shared[count - 1 - i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] += 1.0f;
    simdgroup_barrier(mem_flags::mem_none); // softmetal: allow(unneeded-barrier): an example
}
kernel void forgotten(device float* y [[buffer(1)]], uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = y[i];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = shared[i ^ 1];
}
",
};

#[test]
fn the_gate_names_barriers_that_nothing_proves() {
    let launch = Launch {
        file: GATE,
        kernel: "launched".to_owned(),
        constants: vec![],
        arguments: 64u32.to_le_bytes().to_vec(),
        operands: vec![Operand::output(64, 1)],
        bindings: vec![0],
        grid: Grid::Threadgroups(Size::linear(1)),
        threadgroup: [64, 1, 1],
    };
    assert_eq!(
        unproved(GATE, &[launch]),
        [
            "gate.metal:9: nothing is reported without it",
            "gate.metal:16: no launch passes it"
        ]
    );
}
