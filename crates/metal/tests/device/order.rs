//! What runs before what.

use minfer_metal::device::{
    BlitEncoder, BufferCopy, BufferRange, CommandBuffer, ComputeEncoder, Device, Order,
};

use crate::{LONG, dispatch, floats, on_every_device, pipeline, read, to_from};

on_every_device!(
    dispatches_and_encoders_see_what_those_before_them_wrote,
    blits_run_in_order_with_dispatches,
    what_is_not_submitted_never_runs,
);

/// Enough that a GPU starts a dispatch before it has ended the one before, if nothing orders them.
const COUNT: usize = 1 << 14;

/// Doubles `a` into `b` and `b` into `c`, and in another encoder `c` into `b`. What it finds and should find.
fn chain<D: Device>(device: &D, order: Order, tracked: bool) -> (Vec<f32>, Vec<f32>) {
    let values: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
    let a = floats(device, "a", &values);
    let [b, c] = ["b", "c"].map(|label| {
        let bytes = 4 * COUNT;
        let buffer = if tracked {
            device.buffer(bytes, label)
        } else {
            device.untracked_buffer(bytes, label)
        };
        buffer.unwrap()
    });
    let twice = pipeline(device, "twice", &[]).unwrap();
    let threads = COUNT as u32;
    let work = [to_from(&b, &a), to_from(&c, &b), to_from(&b, &c)];
    let [first, second, third] = work
        .each_ref()
        .map(|work| dispatch::<D>(&twice, work, threads));
    let commands = device.command_buffer("chain").unwrap();
    let mut encoder = commands.compute(order).unwrap();
    encoder.dispatch(&first).unwrap();
    if order == Order::Concurrent || !tracked {
        encoder.barrier();
    }
    encoder.dispatch(&second).unwrap();
    let mut commands = encoder.end();
    if !tracked {
        commands.fence();
    }
    let mut encoder = commands.compute(order).unwrap();
    encoder.dispatch(&third).unwrap();
    encoder.end().submit(LONG).unwrap();
    let expected = values.iter().map(|value| 8.0 * value).collect();
    (read(&b), expected)
}

fn dispatches_and_encoders_see_what_those_before_them_wrote<D: Device>(device: &D) {
    for order in [Order::Serial, Order::Concurrent] {
        for tracked in [true, false] {
            let (found, expected) = chain(device, order, tracked);
            assert_eq!(found, expected, "{order:?}, tracked: {tracked}");
        }
    }
}

fn blits_run_in_order_with_dispatches<D: Device>(device: &D) {
    let a = floats(device, "a", &[1.0, 2.0, 3.0, 4.0]);
    let b = floats(device, "b", &[5.0; 4]);
    let twice = pipeline(device, "twice", &[]).unwrap();
    let mut blit = device.command_buffer("blits").unwrap().blit().unwrap();
    let range = |buffer, offset| BufferRange {
        buffer,
        offset,
        bytes: 8,
    };
    blit.fill(range(&b, 8), 0).unwrap();
    let copy = BufferCopy {
        from: range(&a, 8),
        to: &b,
        to_offset: 0,
    };
    blit.copy(copy).unwrap();
    let mut encoder = blit.end().compute(Order::Concurrent).unwrap();
    encoder
        .dispatch(&dispatch(&twice, &to_from(&a, &b), 4))
        .unwrap();
    let mut blit = encoder.end().blit().unwrap();
    let overlapping = BufferCopy {
        from: range(&b, 0),
        to: &b,
        to_offset: 4,
    };
    let error = blit.copy(overlapping).unwrap_err().to_string();
    assert_eq!(error, "`copy within b`: 8 bytes at 0 and 4 overlap");
    blit.fill(BufferRange::whole(&b), 0).unwrap();
    blit.end().submit(LONG).unwrap();
    assert_eq!(read(&a), [6.0, 8.0, 0.0, 0.0]);
    assert_eq!(read(&b), [0.0; 4]);
}

fn what_is_not_submitted_never_runs<D: Device>(device: &D) {
    let x = floats(device, "x", &[1.0]);
    let y = floats(device, "y", &[0.0]);
    let twice = pipeline(device, "twice", &[]).unwrap();
    let arguments = to_from(&y, &x);
    let encoder = || {
        let commands = device.command_buffer("dropped").unwrap();
        let mut encoder = commands.compute(Order::Serial).unwrap();
        encoder.dispatch(&dispatch(&twice, &arguments, 1)).unwrap();
        encoder
    };
    drop(encoder());
    drop(encoder().end());
    // One in the queue after them shows that they are not waited for.
    let empty = device.command_buffer("empty").unwrap();
    empty.submit(LONG).unwrap();
    assert_eq!(read(&y), [0.0]);
    encoder().end().submit(LONG).unwrap();
    assert_eq!(read(&y), [2.0]);
}
