//! Ends a thread of a kernel that the processor stops, or that goes on after its time.
//!
//! Kernels are native code: a stack without an end, `INT_MIN / -1` or, without checks, a wrong address raise a
//! signal, and a loop that calls nothing never comes back. The handler here sends the coroutine back to its
//! scheduler if the signal came from a kernel's own code, and leaves any other signal to the handler before it.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::switch;
use super::thread::current;

/// Why a thread was ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An address that the process may not access.
    Memory,
    /// Arrays and calls need more stack than there is.
    Stack,
    /// The quotient of an integer division is too large.
    Division,
    /// An array of the thread, or of constants, has no such element.
    Array,
    /// Time is up.
    Expired,
}

/// The end of a thread, and the address in its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trap {
    pub(super) cause: Cause,
    pub(super) pc: usize,
}

/// Sent to the OS threads of a run when its time is up. Its default is to be ignored.
const EXPIRY: i32 = libc::SIGURG;

/// How the system says that a timer sent a signal (`asm-generic/siginfo.h`).
const SI_TIMER: i32 = -2;

const SIGNALS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    EXPIRY,
];

/// How often an OS thread is asked to stop: the first time it may be outside the kernel's own code.
const REPEAT: Duration = Duration::from_millis(1);

/// Handlers that were there before, in the order of `SIGNALS`.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Installs the handlers, once for the process.
pub(super) fn install() {
    BEFORE.get_or_init(|| {
        SIGNALS.map(|signal| {
            // SAFETY: plain data, for which zero is a value; the handler has the type that SA_SIGINFO needs.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = handle;
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                let mut before: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, &raw mut before);
                before
            }
        })
    });
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a context of the interrupted thread, which goes on with what is in it.
    if unsafe { end_thread(signal, info, context) || (*info).si_code == SI_TIMER } {
        return;
    }
    let index = SIGNALS.iter().position(|known| *known == signal);
    let before = index.and_then(|index| BEFORE.get()?.get(index));
    match before.map(|before| (before.sa_sigaction, before.sa_flags)) {
        Some((handler, flags)) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
            // SAFETY: whoever installed the handler said by the flags which type it has.
            unsafe {
                if flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
        // By default nothing happens.
        _ if signal == EXPIRY => {}
        // The instruction raises the signal again, which then ends the process.
        // SAFETY: the default needs no handler.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

/// Whether the signal came from a kernel, whose thread then ends.
#[cfg(target_arch = "x86_64")]
unsafe fn end_thread(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the caller passes what the system gave to the handler.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let registers = &mut context.uc_mcontext.gregs;
    let at = |register: i32| registers[register as usize] as usize;
    let (pc, sp) = (at(libc::REG_RIP), at(libc::REG_RSP));
    let Some(running) = current() else {
        return false;
    };
    let cause = match signal {
        libc::SIGFPE => Cause::Division,
        libc::SIGILL => Cause::Array,
        EXPIRY if Instant::now() < running.deadline => return false,
        EXPIRY => Cause::Expired,
        // SAFETY: these signals carry an address.
        _ if running.is_below_stack(unsafe { info.si_addr() }.addr()) => Cause::Stack,
        _ => Cause::Memory,
    };
    // The stack pointer lies in the coroutine, and its code is the kernel's, which owns nothing that needs to be released.
    let Some(scheduler) = running.interrupted(pc, sp, cause) else {
        return false;
    };
    let leave: unsafe extern "C" fn(usize) -> ! = switch::leave;
    registers[libc::REG_RIP as usize] = leave as usize as i64;
    registers[libc::REG_RDI as usize] = scheduler as i64;
    true
}

/// The registers of other processors are not known here: a fault ends the process.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn end_thread(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) -> bool {
    false
}

/// A stack for the handler on the calling OS thread: a coroutine's may be full.
pub(super) struct SignalStack {
    _memory: Box<[MaybeUninit<u128>]>,
    before: libc::stack_t,
}

impl SignalStack {
    pub(super) fn new() -> Self {
        const BYTES: usize = 64 * 1024;
        let mut memory = Box::new_uninit_slice(BYTES / 16);
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: BYTES,
        };
        let mut before = libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        };
        // SAFETY: the memory lives until `drop` puts the stack before it back.
        unsafe { libc::sigaltstack(&raw const stack, &raw mut before) };
        SignalStack {
            _memory: memory,
            before,
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: the same OS thread had this stack before: the value does not leave it.
        unsafe { libc::sigaltstack(&raw const self.before, std::ptr::null_mut()) };
    }
}

/// Interrupts the calling OS thread from a point in time on, again and again.
pub(super) struct Alarm(libc::timer_t);

impl Alarm {
    pub(super) fn new(deadline: Instant) -> std::io::Result<Self> {
        let left = deadline.saturating_duration_since(Instant::now());
        // SAFETY: plain data, for which zero is a value; the timer signals this OS thread alone.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = EXPIRY;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            let alarm = Alarm(timer);
            let times = libc::itimerspec {
                // Zero would switch the timer off.
                it_value: timespec(left.max(Duration::from_nanos(1))),
                it_interval: timespec(REPEAT),
            };
            if libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(alarm)
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is this value's.
        unsafe { libc::timer_delete(self.0) };
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos().into(),
    }
}
