//! A compiled library in memory: its kernels, function constants and source places.

pub(crate) mod abi;
mod image;
mod places;
mod signature;

use std::ffi::{CStr, c_char};

pub(crate) use image::{Image, thread_storage};
pub(crate) use places::Places;
pub use places::SourcePlace;

use crate::compile::Product;
use crate::exec;

/// A loaded library.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) derived: Vec<Derived>,
    pub(crate) image: Image,
    pub(crate) places: Places,
    derive_constants: unsafe extern "C" fn(),
    attempt: Attempt,
    // Unloaded after everything that points into it; the file goes last.
    _library: libloading::Library,
    _product: Product,
}

/// `softmetal_attempt`: calls a function; `false` if that came upon a division or shift without a result.
type Attempt = unsafe extern "C" fn(unsafe extern "C" fn()) -> bool;

/// A kernel as C++ sees it.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) run: unsafe extern "C" fn(*const abi::Frame),
    pub(crate) parameters: Vec<Parameter>,
    /// What the kernel's attribute allows, if it has one.
    pub(crate) max_threads: Option<usize>,
}

/// What a parameter is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Buffer(u32),
    Threadgroup(u32),
    /// A value with so many components, by its place in `BUILTINS`.
    Builtin {
        index: u32,
        components: u32,
    },
}

/// A parameter of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) slot: Slot,
    /// Bytes that a reference needs; 0 for a pointer.
    pub(crate) needs: usize,
    pub(crate) align: usize,
    pub(crate) read_only: bool,
    /// Asks whether it exists, of the function constants on the calling OS thread.
    pub(crate) present: Option<unsafe extern "C" fn() -> bool>,
}

/// A function constant. Its value belongs to an OS thread.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) size: usize,
    /// Whether the source asks if it has a value.
    pub(crate) optional: bool,
    pub(crate) storage: unsafe extern "C" fn() -> *mut std::ffi::c_void,
    pub(crate) defined: unsafe extern "C" fn() -> *mut bool,
}

/// A program-scope value computed from function constants. It belongs to an OS thread, too.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    pub(crate) name: String,
    /// Names of what it is computed from, values like it among them.
    pub(crate) depends_on: Vec<String>,
    pub(crate) size: usize,
    pub(crate) storage: unsafe extern "C" fn() -> *mut std::ffi::c_void,
}

impl Module {
    /// Loads a product of this crate's compiler.
    pub(crate) fn load(name: &str, product: Product) -> Result<Self, String> {
        let text = |error: libloading::Error| error.to_string();
        // SAFETY: the file was built from the shim and a library's source; its constructors initialize
        // program-scope constants and call nothing but the hooks, which ignore calls outside a dispatch.
        let library = unsafe { libloading::Library::new(&product.path) }.map_err(text)?;
        // SAFETY: only the address is used; `pipeline.h` declares what is there.
        let table = unsafe {
            let symbol = library.get::<*const abi::ModuleTable>(b"softmetal_module");
            symbol
                .map_err(text)?
                .try_as_raw_ptr()
                .ok_or("no module table")?
        };
        // SAFETY: `runtime.cpp` declares the function so.
        let attach =
            unsafe { library.get::<unsafe extern "C" fn(*const abi::Hooks)>(b"softmetal_attach") };
        // SAFETY: the hooks live for ever.
        unsafe { attach.map_err(text)?(&raw const exec::HOOKS) };
        // SAFETY: as above.
        let attempt = unsafe { library.get::<Attempt>(b"softmetal_attempt") };
        let attempt = *attempt.map_err(text)?;
        // SAFETY: the table is a constant of the library, which outlives this borrow.
        let table = unsafe { &*table.cast::<abi::ModuleTable>() };
        let image = Image::of(std::ptr::from_ref(table).addr())
            .ok_or("cannot locate the loaded library")?;
        let kernels = kernels(table);
        kernels.iter().try_for_each(signature::check)?;
        Ok(Module {
            name: name.to_owned(),
            kernels,
            constants: constants(table),
            derived: derived(table),
            places: Places::new(&product.path, image.base)?,
            image,
            derive_constants: table.derive_constants,
            attempt,
            _library: library,
            _product: product,
        })
    }

    /// Computes what depends on function constants from those of the calling OS thread; whether all has a value.
    pub(crate) fn derive_constants(&self) -> bool {
        // SAFETY: it assigns variables of this OS thread, and owns nothing that needs to be released.
        unsafe { (self.attempt)(self.derive_constants) }
    }
}

fn kernels(table: &abi::ModuleTable) -> Vec<Kernel> {
    // SAFETY: the front end wrote the count beside the array.
    let entries = unsafe { std::slice::from_raw_parts(table.kernels, table.kernel_count as usize) };
    entries.iter().map(kernel).collect()
}

fn kernel(entry: &abi::KernelEntry) -> Kernel {
    // SAFETY: as above.
    let parameters =
        unsafe { std::slice::from_raw_parts(entry.parameters, entry.parameter_count as usize) };
    Kernel {
        name: string(entry.name),
        run: entry.run,
        parameters: parameters.iter().map(parameter).collect(),
        max_threads: (entry.max_threads > 0).then_some(entry.max_threads as usize),
    }
}

fn parameter(entry: &abi::Parameter) -> Parameter {
    Parameter {
        name: string(entry.name),
        slot: match entry.kind {
            abi::KIND_BUFFER => Slot::Buffer(entry.index),
            abi::KIND_THREADGROUP => Slot::Threadgroup(entry.index),
            _ => Slot::Builtin {
                index: entry.index,
                components: entry.size,
            },
        },
        needs: if entry.reference == 1 {
            entry.size as usize
        } else {
            0
        },
        align: entry.align as usize,
        read_only: entry.read_only == 1,
        present: entry.present,
    }
}

fn constants(table: &abi::ModuleTable) -> Vec<Constant> {
    // SAFETY: as above.
    let entries =
        unsafe { std::slice::from_raw_parts(table.constants, table.constant_count as usize) };
    entries
        .iter()
        .map(|entry| Constant {
            name: string(entry.name),
            optional: entry.optional == 1,
            index: entry.index,
            size: entry.size as usize,
            storage: entry.storage,
            defined: entry.defined,
        })
        .collect()
}

fn derived(table: &abi::ModuleTable) -> Vec<Derived> {
    // SAFETY: as above.
    let entries =
        unsafe { std::slice::from_raw_parts(table.derived, table.derived_count as usize) };
    entries
        .iter()
        .map(|entry| Derived {
            name: string(entry.name),
            depends_on: string(entry.depends_on)
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            size: entry.size as usize,
            storage: entry.storage,
        })
        .collect()
}

fn string(text: *const c_char) -> String {
    // SAFETY: names in the tables are string literals of the library.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
