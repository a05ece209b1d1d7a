//! Types shared with the compiled library, as `shim/softmetal/hooks.h` and `pipeline.h` declare them.

use std::ffi::{c_char, c_void};

/// Number of builtin values of a thread.
pub(crate) const BUILTINS: usize = 18;

/// `softmetal::frame`
#[repr(C)]
pub(crate) struct Frame {
    pub(crate) buffers: *const *mut c_void,
    pub(crate) threadgroup_memory: *const *mut c_void,
    pub(crate) builtins: [[u32; 3]; BUILTINS],
}

/// `softmetal::kind`
pub(crate) const KIND_BUFFER: u32 = 0;
pub(crate) const KIND_THREADGROUP: u32 = 1;

/// `softmetal::parameter`
#[repr(C)]
pub(crate) struct Parameter {
    pub(crate) kind: u32,
    pub(crate) index: u32,
    pub(crate) reference: u32,
    pub(crate) read_only: u32,
    pub(crate) size: u32,
    pub(crate) align: u32,
    pub(crate) name: *const c_char,
    pub(crate) present: Option<unsafe extern "C" fn() -> bool>,
}

/// `softmetal::kernel_entry`
#[repr(C)]
pub(crate) struct KernelEntry {
    pub(crate) name: *const c_char,
    pub(crate) run: unsafe extern "C" fn(*const Frame),
    pub(crate) parameters: *const Parameter,
    pub(crate) parameter_count: u32,
    pub(crate) max_threads: u32,
}

/// `softmetal::function_constant`
#[repr(C)]
pub(crate) struct FunctionConstant {
    pub(crate) name: *const c_char,
    pub(crate) index: u32,
    pub(crate) size: u32,
    pub(crate) optional: u32,
    pub(crate) storage: unsafe extern "C" fn() -> *mut c_void,
    pub(crate) defined: unsafe extern "C" fn() -> *mut bool,
}

/// `softmetal::derived_constant`
#[repr(C)]
pub(crate) struct DerivedConstant {
    pub(crate) name: *const c_char,
    pub(crate) depends_on: *const c_char,
    pub(crate) size: u32,
    pub(crate) storage: unsafe extern "C" fn() -> *mut c_void,
}

/// `softmetal::module_table`
#[repr(C)]
pub(crate) struct ModuleTable {
    pub(crate) kernels: *const KernelEntry,
    pub(crate) constants: *const FunctionConstant,
    pub(crate) derived: *const DerivedConstant,
    pub(crate) kernel_count: u32,
    pub(crate) constant_count: u32,
    pub(crate) derived_count: u32,
    pub(crate) derive_constants: unsafe extern "C" fn(),
}

/// `softmetal_exchange`
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) active: u32,
    pub(crate) lane: u32,
    pub(crate) values: [[u64; 2]; 32],
    pub(crate) result: [u64; 2],
    pub(crate) has_result: u32,
    pub(crate) products: [[f32; 8]; 8],
}

/// Bits of an access's kind.
pub(crate) const ACCESS_WRITE: u32 = 1;
pub(crate) const ACCESS_ALIGNED: u32 = 2;
pub(crate) const ACCESS_ATOMIC: u32 = 4;
pub(crate) const ACCESS_MODIFY: u32 = 8;

/// `exchange_kind`: an operation on matrices.
pub(crate) const EXCHANGE_MATRIX: u32 = 1;
/// `exchange_kind`: an operation within quadgroups.
pub(crate) const EXCHANGE_QUAD: u32 = 2;

/// `exchange_kind`: lanes bring nothing.
pub(crate) const EXCHANGE_MEETING: u32 = 3;

/// Reason of a trap: a shift. The other is a division.
pub(crate) const TRAP_SHIFT: u32 = 1;

/// `mem_flags`
pub(crate) const FLAG_DEVICE: u32 = 1;
pub(crate) const FLAG_THREADGROUP: u32 = 2;

/// Scope of a barrier: all of a threadgroup.
pub(crate) const SCOPE_THREADGROUP: u32 = 1;

/// `hooks` of `shim/softmetal/runtime.cpp`
#[repr(C)]
pub(crate) struct Hooks {
    pub(crate) access: unsafe extern "C" fn(*const c_void, u64, u32, *const c_void),
    pub(crate) barrier: unsafe extern "C" fn(u32, u32, *const c_void),
    pub(crate) simd: unsafe extern "C" fn(*const c_void, u32, u32, *const c_void) -> *mut Exchange,
    pub(crate) absent_lane: unsafe extern "C" fn(u32, *const c_void),
    pub(crate) threadgroup_variable:
        unsafe extern "C" fn(*const c_void, u64, u32, *const c_char, *const c_void) -> *mut c_void,
    pub(crate) trap: unsafe extern "C" fn(u32, *const c_void),
    pub(crate) array_index: unsafe extern "C" fn(i64, *const c_char, *const c_void),
}
