//! Calls from compiled kernels. Each finds the running thread in a thread-local of the OS thread.

use std::ffi::{CStr, c_char, c_void};

use super::thread::current;
use crate::module::abi::{Exchange, Hooks};

/// The functions that a loaded library calls.
pub(crate) static HOOKS: Hooks = Hooks {
    access,
    barrier,
    simd,
    absent_lane,
    threadgroup_variable,
    trap,
    array_index,
};

unsafe extern "C" fn access(at: *const c_void, bytes: u64, kind: u32, pc: *const c_void) {
    // Constructors of a library run outside any dispatch.
    if let Some(thread) = current() {
        thread.access(at.addr(), bytes as usize, kind, pc.addr());
    }
}

unsafe extern "C" fn barrier(scope: u32, flags: u32, pc: *const c_void) {
    if let Some(thread) = current() {
        thread.barrier(scope, flags, pc.addr());
    }
}

unsafe extern "C" fn simd(
    value: *const c_void,
    bytes: u32,
    kind: u32,
    pc: *const c_void,
) -> *mut Exchange {
    let mut words = [0u64; 2];
    // SAFETY: the shim passes a value of so many bytes, at most 16. Its alignment may be less than a word's.
    unsafe {
        match bytes {
            // A load of what a copy stored in parts would wait for the copy.
            4 => words[0] = value.cast::<u32>().read_unaligned().into(),
            8 => words[0] = value.cast::<u64>().read_unaligned(),
            _ => value
                .cast::<u8>()
                .copy_to_nonoverlapping(words.as_mut_ptr().cast(), bytes.min(16) as usize),
        }
    };
    match current() {
        Some(thread) => thread.exchange(words, kind, pc.addr()),
        None => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn absent_lane(lane: u32, pc: *const c_void) {
    if let Some(thread) = current() {
        thread.absent_lane(lane, pc.addr());
    }
}

unsafe extern "C" fn threadgroup_variable(
    key: *const c_void,
    bytes: u64,
    align: u32,
    name: *const c_char,
    pc: *const c_void,
) -> *mut c_void {
    // SAFETY: the front end passes a string literal.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("?");
    match current() {
        Some(thread) => thread
            .variable(key.addr(), bytes as usize, align as usize, name, pc.addr())
            .cast(),
        None => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn trap(reason: u32, pc: *const c_void) {
    if let Some(thread) = current() {
        thread.trap(reason, pc.addr());
    }
}

unsafe extern "C" fn array_index(index: i64, array: *const c_char, pc: *const c_void) {
    // SAFETY: the compiler's description of the array's type ends with a zero.
    let array = unsafe { CStr::from_ptr(array) }.to_str().unwrap_or("?");
    if let Some(thread) = current() {
        thread.array_index(index, array, pc.addr());
    }
}
