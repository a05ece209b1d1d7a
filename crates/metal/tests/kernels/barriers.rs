//! Every barrier of every shipped kernel is needed: without it, the checker reports something.

use std::collections::BTreeSet;

use minfer_metal::device::SourceFile;
use minfer_metal::kernels;
use minfer_softmetal::Options;
use minfer_softmetal::lint::barriers;
use minfer_softmetal::report::SourcePlace;

use crate::launch::{Launch, Outcome, options};
use crate::{attention, elementwise, kv, kv_rotate, matvec, norm, rope, rows};

/// Small launches of all kernels. One that is missing here fails the gate if it has a barrier.
fn launches() -> Vec<Launch> {
    [
        attention::launches,
        elementwise::launches,
        kv::launches,
        kv_rotate::launches,
        matvec::launches,
        norm::launches,
        rope::launches,
        rows::launches,
    ]
    .iter()
    .flat_map(|family| family())
    .collect()
}

/// Barriers of a file that no launch passes, or that every launch can do without.
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

#[test]
fn every_barrier_of_every_kernel_is_needed() {
    let launches = launches();
    let unproved: Vec<_> = kernels::ALL
        .iter()
        .flat_map(|file| unproved(*file, &launches))
        .collect();
    assert_eq!(unproved, [""; 0]);
}
