//! What only the device's own statistics show.

use minfer_gguf::{Gguf, OpenOptions};
use minfer_graph::KvFormat;
use minfer_metal::backend::KernelChoices;
use minfer_optable::{Placement, RowRange, run};
use minfer_softmetal::Mode;
use minfer_testdata::tiny_model;

use super::device;
use crate::alternatives::FAST;
use crate::backend_of;
use crate::choices::{CHUNKS, case};
use crate::decoder::{Decoder, Step};
use crate::memory::warmed;

/// The counts that limits are set for are those of what reaches the device.
#[test]
fn a_backend_counts_what_it_gives_the_device() {
    let device = device(Mode::Unchecked);
    let gguf = Gguf::open(tiny_model("tiny-qwen3-q4_k"), OpenOptions::default()).unwrap();
    let mut decoder = Decoder::new(&gguf, device.clone(), KvFormat::F16, true);
    decoder.prompt(&[1, 2, 3]);
    decoder.decode(Step {
        first: 3,
        ids: &[4],
        wanted: &[0],
    });
    let (counted, done) = (decoder.work(), device.take_statistics().submissions);
    assert_eq!(
        [counted.submits, counted.dispatches, counted.barriers],
        [done.command_buffers, done.dispatches, done.barriers]
    );
    assert!(done.dispatches > 0);
}

/// A partial of a chunk is 64 outputs, the largest score and the sum of weights, for each of 14 heads.
#[test]
fn chunks_of_a_window_are_as_many_as_chosen() {
    let case = case("F32 Causal, 14/2 heads of 64");
    let range = RowRange {
        rows: 3..4,
        prompt: 0,
    };
    let written = |choices: KernelChoices| {
        let device = device(Mode::Checked);
        let mut backend = backend_of(device.clone(), choices);
        run(case, &mut backend, Placement::Contiguous, &range).unwrap();
        let statistics = device.statistics();
        let mut kernels = statistics.iter();
        let flash = kernels.find(|kernel| kernel.kernel == "flash_decode_f32");
        flash.unwrap().distinct_bytes_written
    };
    // 300 keys are 10 blocks.
    for (choices, chunks) in [(FAST, 10), (CHUNKS, 3)] {
        assert_eq!(written(choices), chunks * 14 * 4 * 66);
    }
}

/// A word of each.
#[test]
fn every_page_of_shared_weights_is_touched() {
    for (touch_weights, bytes) in [(false, 0), (true, 4 * 3)] {
        let device = device(Mode::Checked);
        warmed(device.clone(), touch_weights);
        let statistics = device.statistics();
        let read = statistics.iter().map(|kernel| kernel.distinct_bytes_read);
        assert_eq!(read.sum::<u64>(), bytes);
    }
}
