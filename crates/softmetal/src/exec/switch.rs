//! Goes from one stack to another.
//!
//! A stack that does not run ends with the registers that a function keeps for its caller, and the address where it
//! goes on. The lanes of a simdgroup mostly stop at one place of the code: whoever goes on there finds that the
//! processor predicts the very returns that are ahead. By way of a scheduler's stack it would predict none of them.

use std::arch::naked_asm;

/// Where a stack that does not run ends.
pub(super) type Top = usize;

/// What a coroutine runs, given an address.
pub(super) type Body = unsafe extern "C" fn(usize) -> !;

/// Leaves the running stack, whose end goes to `own`, for another one; comes back when someone switches to it.
///
/// # Safety
///
/// `to` must be the end of a stack that this function left, or that [`prepare`] made, and that has not run since.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn switch(own: *mut Top, to: Top) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Leaves the running stack for good.
///
/// # Safety
///
/// As for [`switch`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(to: Top) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Calls the function in r13 with the argument in r12.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() -> ! {
    naked_asm!("mov rdi, r12", "call r13", "ud2")
}

/// r15, r14, r13, r12, rbx, rbp, where to go on, and two words that align the call.
#[cfg(target_arch = "x86_64")]
fn frame(body: Body, argument: usize) -> [usize; 9] {
    let start = begin as unsafe extern "C" fn() -> ! as usize;
    [0, 0, body as usize, argument, 0, 0, start, 0, 0]
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn switch(own: *mut Top, to: Top) {
    naked_asm!(
        "stp x29, x30, [sp, #-160]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov x0, x1",
        "b {leave}",
        leave = sym leave,
    )
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(to: Top) -> ! {
    naked_asm!(
        "mov sp, x0",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        "ret",
    )
}

/// Calls the function in x19 with the argument in x20.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() -> ! {
    naked_asm!("mov x0, x20", "blr x19", "brk #1")
}

/// x29, x30 (where to go on), x19, x20, and what may be anything.
#[cfg(target_arch = "aarch64")]
fn frame(body: Body, argument: usize) -> [usize; 20] {
    let mut words = [0; 20];
    words[1] = begin as unsafe extern "C" fn() -> ! as usize;
    words[2] = body as usize;
    words[3] = argument;
    words
}

/// Makes an empty stack, which grows down from `base`, such that `body(argument)` runs when someone switches to it.
///
/// # Safety
///
/// `base` must be a multiple of 16, and at least 160 bytes below it the caller's.
pub(super) unsafe fn prepare(base: usize, body: Body, argument: usize) -> Top {
    let words = frame(body, argument);
    let top = base - size_of_val(&words);
    // SAFETY: the caller owns the memory, whose address is a multiple of 8.
    unsafe { std::ptr::write(std::ptr::with_exposed_provenance_mut(top), words) };
    top
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Two sides that take turns.
    struct Turns {
        caller: Cell<Top>,
        other: Cell<Top>,
        count: Cell<u32>,
        /// What the other side keeps in registers meanwhile.
        sum: Cell<f64>,
    }

    unsafe extern "C" fn count(turns: usize) -> ! {
        let turns: *const Turns = std::ptr::with_exposed_provenance(turns);
        // SAFETY: the test keeps it until it is through.
        let turns = unsafe { &*turns };
        let (mut sum, mut step) = (0.0, 1.0);
        loop {
            sum += step;
            step *= 2.0;
            turns.count.set(turns.count.get() + 1);
            turns.sum.set(sum);
            // SAFETY: the caller waits.
            unsafe { switch(turns.other.as_ptr(), turns.caller.get()) };
        }
    }

    #[test]
    fn a_side_goes_on_where_it_left_with_what_it_had() {
        let mut stack = vec![0u128; 4096];
        let turns = Turns {
            caller: Cell::new(0),
            other: Cell::new(0),
            count: Cell::new(0),
            sum: Cell::new(0.0),
        };
        let base = stack.as_mut_ptr_range().end.expose_provenance();
        let argument = std::ptr::from_ref(&turns).expose_provenance();
        // SAFETY: the stack is the test's, and large.
        turns.other.set(unsafe { prepare(base, count, argument) });
        for turn in 1..=20 {
            // SAFETY: the other side waits.
            unsafe { switch(turns.caller.as_ptr(), turns.other.get()) };
            assert_eq!(turns.count.get(), turn);
            assert_eq!(turns.sum.get(), f64::from((1u32 << turn) - 1));
        }
    }
}
