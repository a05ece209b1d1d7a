//! What orders the commands of a command buffer, for buffers that Metal tracks and for those it does not.

use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, BlitEncoder, Buffer, BufferCopy, BufferRange, CommandBuffer, ComputeEncoder,
    Device, DeviceError, Dispatch, Grid, LibrarySource, Order, Size, SourceFile,
};
use minfer_softmetal::report::Report;
use minfer_softmetal::{SoftBuffer, SoftCommandBuffer, SoftDevice, SoftPipeline};

use crate::case::device;

const SOURCE: SourceFile<'static> = SourceFile {
    name: "add.metal",
    text: "#include <metal_stdlib>
kernel void add(device float* to [[buffer(0)]],
                device const float* from [[buffer(1)]],
                uint i [[thread_position_in_grid]]) {
    to[i] = from[i] + 1.0f;
}
",
};

const FLOATS: usize = 32;

/// Part of a command buffer.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// An encoder with dispatches `from` a buffer `to` a buffer.
    Compute(Order, &'static [Do]),
    /// An encoder with copies.
    Blit(&'static [Do]),
    Fence,
}

/// Part of an encoder.
#[derive(Clone, Copy, Debug)]
enum Do {
    Add(usize, usize),
    Move(usize, usize),
    Fill(usize),
    Barrier,
}

use Do::{Add, Barrier, Fill, Move};
use Order::{Concurrent, Serial};
use Part::{Blit, Compute, Fence};

struct Bench {
    device: SoftDevice,
    add: SoftPipeline,
    buffers: [SoftBuffer; 3],
}

impl Bench {
    fn new(tracked: bool) -> Self {
        let device = device();
        let library = device.library(&LibrarySource::new(SOURCE, &[]).unwrap());
        let buffer = |name| match tracked {
            true => device.buffer(4 * FLOATS, name).unwrap(),
            false => device.untracked_buffer(4 * FLOATS, name).unwrap(),
        };
        Bench {
            add: device.pipeline(&library.unwrap(), "add", &[]).unwrap(),
            buffers: ["a", "b", "c"].map(buffer),
            device,
        }
    }

    fn run(&self, parts: &[Part]) -> Vec<Report> {
        let mut commands = self.device.command_buffer("parts").unwrap();
        for part in parts {
            commands = self.encode(commands, *part);
        }
        let completed = commands.submit(Duration::from_secs(60)).is_ok();
        let reports = self.device.take_reports();
        assert_eq!(completed, reports.is_empty());
        reports
    }

    fn encode(&self, mut commands: SoftCommandBuffer, part: Part) -> SoftCommandBuffer {
        match part {
            Fence => {
                commands.fence();
                commands
            }
            Compute(order, steps) => {
                let mut encoder = commands.compute(order).unwrap();
                for step in steps {
                    match *step {
                        Barrier => encoder.barrier(),
                        Add(from, to) => self.add(from, to, |add| encoder.dispatch(add)).unwrap(),
                        other => panic!("{other:?} in a compute encoder"),
                    }
                }
                encoder.end()
            }
            Blit(steps) => {
                let mut encoder = commands.blit().unwrap();
                for step in steps {
                    let buffer = |index: usize| &self.buffers[index];
                    match *step {
                        Fill(to) => encoder.fill(BufferRange::whole(buffer(to)), 0).unwrap(),
                        Move(from, to) => encoder
                            .copy(BufferCopy {
                                from: BufferRange::whole(buffer(from)),
                                to: buffer(to),
                                to_offset: 0,
                            })
                            .unwrap(),
                        other => panic!("{other:?} in a blit encoder"),
                    }
                }
                encoder.end()
            }
        }
    }

    fn add<R>(
        &self,
        from: usize,
        to: usize,
        then: impl FnOnce(&Dispatch<'_, SoftDevice>) -> R,
    ) -> R {
        let argument = |index, buffer: usize, access| Argument::Buffer {
            index,
            range: BufferRange::whole(&self.buffers[buffer]),
            access,
        };
        then(&Dispatch {
            label: &format!("{from} to {to}"),
            pipeline: &self.add,
            arguments: &[
                argument(0, to, Access::Write),
                argument(1, from, Access::Read),
            ],
            grid: Grid::Threads(Size::linear(FLOATS as u32)),
            threadgroup: Size::linear(32),
        })
    }
}

/// Commands that conflict, what the report says of the later and of the earlier side, and the same commands with what
/// orders them.
struct Case {
    name: &'static str,
    broken: &'static [Part],
    place: &'static str,
    sides: [&'static str; 2],
    correct: &'static [Part],
    /// Whether nothing is wrong where Metal tracks the buffers.
    tracked: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "blit, then dispatch",
        broken: &[Blit(&[Fill(0)]), Compute(Serial, &[Add(0, 1)])],
        place: "`a` (parameter `from`) + 0 at add.metal:5",
        sides: [
            "read of 4 bytes by thread",
            "write of 128 bytes by the fill of 128 bytes of `a`",
        ],
        correct: &[Blit(&[Fill(0)]), Fence, Compute(Serial, &[Add(0, 1)])],
        tracked: true,
    },
    Case {
        name: "dispatch, then blit",
        broken: &[Compute(Serial, &[Add(0, 1)]), Blit(&[Move(1, 2)])],
        place: "`b` + 0",
        sides: ["read of 128 bytes\n", "write of 4 bytes by thread"],
        correct: &[Compute(Serial, &[Add(0, 1)]), Fence, Blit(&[Move(1, 2)])],
        tracked: true,
    },
    Case {
        name: "blit over what a dispatch reads",
        broken: &[Compute(Concurrent, &[Add(0, 1)]), Blit(&[Fill(0)])],
        place: "`a` + 0",
        sides: ["write of 128 bytes\n", "read of 4 bytes by thread"],
        correct: &[Compute(Concurrent, &[Add(0, 1)]), Fence, Blit(&[Fill(0)])],
        tracked: true,
    },
    Case {
        name: "two copies in one encoder",
        broken: &[Blit(&[Move(0, 1), Move(1, 2)])],
        place: "`b` + 0",
        sides: [
            "read of 128 bytes\n",
            "write of 128 bytes by the copy of 128 bytes from `a` to `b`",
        ],
        correct: &[Blit(&[Move(0, 1)]), Fence, Blit(&[Move(1, 2)])],
        tracked: true,
    },
    Case {
        name: "dispatches of two encoders",
        broken: &[Compute(Serial, &[Add(0, 1)]), Compute(Serial, &[Add(1, 2)])],
        place: "`b` (parameter `from`) + 0 at add.metal:5",
        sides: ["read of 4 bytes by thread", "of dispatch `0 to 1`"],
        correct: &[
            Compute(Serial, &[Add(0, 1)]),
            Fence,
            Compute(Serial, &[Add(1, 2)]),
        ],
        tracked: true,
    },
    Case {
        name: "a barrier of the next encoder",
        broken: &[
            Compute(Serial, &[Add(0, 1)]),
            Compute(Serial, &[Barrier, Add(1, 2)]),
        ],
        place: "`b` (parameter `from`) + 0 at add.metal:5",
        sides: ["read of 4 bytes by thread", "of dispatch `0 to 1`"],
        correct: &[Compute(Serial, &[Add(0, 1), Barrier, Add(1, 2)])],
        tracked: true,
    },
    Case {
        name: "dispatches of a serial encoder",
        broken: &[Compute(Serial, &[Add(0, 1), Add(1, 2)])],
        place: "`b` (parameter `from`) + 0 at add.metal:5",
        sides: ["read of 4 bytes by thread", "of dispatch `0 to 1`"],
        correct: &[Compute(Serial, &[Add(0, 1), Barrier, Add(1, 2)])],
        tracked: true,
    },
    Case {
        name: "dispatches of a concurrent encoder",
        broken: &[Compute(Concurrent, &[Add(0, 1), Add(1, 2)])],
        place: "`b` (parameter `from`) + 0 at add.metal:5",
        sides: ["read of 4 bytes by thread", "of dispatch `0 to 1`"],
        correct: &[Compute(Concurrent, &[Add(0, 1), Barrier, Add(1, 2)])],
        tracked: false,
    },
];

#[test]
fn untracked_buffers_are_ordered_by_barriers_and_fences_alone() {
    let bench = Bench::new(false);
    for case in CASES {
        let reports = bench.run(case.broken);
        let [report] = reports.as_slice() else {
            panic!("{}: {reports:#?}", case.name);
        };
        let expected = format!(
            "error: commands that nothing orders: device memory {}",
            case.place
        );
        assert_eq!(report.headline(), expected, "{}", case.name);
        let text = report.to_string();
        let (now, before) = text.split_once("conflicts with the earlier").unwrap();
        assert!(now.contains(case.sides[0]), "{}: {text}", case.name);
        assert!(before.contains(case.sides[1]), "{}: {text}", case.name);
        assert_eq!(bench.run(case.correct), [], "{}", case.name);
    }
}

#[test]
fn tracked_buffers_are_ordered_by_encoders_and_serial_dispatches_too() {
    let bench = Bench::new(true);
    for case in CASES {
        assert_eq!(
            bench.run(case.broken).is_empty(),
            case.tracked,
            "{}",
            case.name
        );
        assert_eq!(bench.run(case.correct), [], "{}", case.name);
    }
}

#[test]
fn a_missing_fence_is_reported_with_both_commands() {
    let bench = Bench::new(false);
    let reports = bench.run(&[Compute(Serial, &[Add(0, 1)]), Blit(&[Move(1, 2)])]);
    let expected = "\
error: commands that nothing orders: device memory `b` + 0
  nothing tracks this buffer: a fence must stand between the encoders
  read of 128 bytes
  conflicts with the earlier
  write of 4 bytes by thread (0, 0, 0) of threadgroup (0, 0, 0), simdgroup 0 lane 0 of dispatch `0 to 1`
    --> add.metal:5:11
    5 |     to[i] = from[i] + 1.0f;
      |           ^
  in the copy of 128 bytes from `b` to `c`";
    assert_eq!(reports[0].to_string(), expected);
}

#[test]
fn a_copy_of_discarded_bytes_has_no_contents_either() {
    let bench = Bench::new(true);
    let [a, b, c] = &bench.buffers;
    let range = BufferRange {
        buffer: a,
        offset: 64,
        bytes: 32,
    };
    bench.device.discard(range).unwrap();
    // Bytes 64 to 95 of `a` go to 80 to 111 of `b`.
    let copy = BufferCopy {
        from: BufferRange {
            offset: 0,
            bytes: 112,
            ..range
        },
        to: b,
        to_offset: 16,
    };
    let mut encoder = bench.device.command_buffer("copy").unwrap().blit().unwrap();
    encoder.copy(copy).unwrap();
    encoder.end().submit(Duration::from_secs(60)).unwrap();
    let reports = bench.run(&[Compute(Serial, &[Add(1, 2)])]);
    let headlines: Vec<_> = reports.iter().map(Report::headline).collect();
    let stale = "error: read of a buffer without contents: device memory `b` (parameter `from`) + 80 at add.metal:5";
    assert_eq!(headlines, [stale]);
    assert_eq!(reports[0].count, 8);
    let mut bytes = [0; 16];
    let error = b.read(72, &mut bytes).unwrap_err();
    assert!(
        matches!(error, DeviceError::Discarded { offset: 80, .. }),
        "{error}"
    );
    b.read(64, &mut bytes).unwrap();
    b.read(112, &mut bytes).unwrap();
    c.read(0, &mut bytes).unwrap();
    assert_eq!(bench.run(&[Blit(&[Fill(1)])]), []);
    b.read(72, &mut bytes).unwrap();
    assert_eq!(bench.run(&[Compute(Serial, &[Add(1, 2)])]), []);
}
