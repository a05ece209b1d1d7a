//! Why a device could not do what it was asked to.

use std::time::Duration;

/// An error of a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No memory for a buffer.
    #[error("buffer `{label}` of {bytes} bytes: {reason}")]
    Allocation {
        /// The buffer.
        label: String,
        /// Its size.
        bytes: usize,
        /// What the device or system said.
        reason: String,
    },
    /// Memory that cannot be shared without a copy.
    #[error(
        "buffer `{label}`: address {address:#x} and length {length} must be multiples of {page} bytes"
    )]
    Unaligned {
        /// The buffer.
        label: String,
        /// Where it starts.
        address: usize,
        /// Its size in bytes.
        length: usize,
        /// The page size.
        page: usize,
    },
    /// A range that is not in its buffer.
    #[error("buffer `{buffer}` of {bytes} bytes has no range of {length} bytes at {offset}")]
    OutOfRange {
        /// The buffer.
        buffer: String,
        /// First byte of the range.
        offset: usize,
        /// Bytes in the range.
        length: usize,
        /// Bytes in the buffer.
        bytes: usize,
    },
    /// Host access to memory that is shared for reading.
    #[error("buffer `{buffer}` wraps memory that may only be read")]
    ReadOnly {
        /// The buffer.
        buffer: String,
    },
    /// Access to memory that the device may still use, as after work that timed out.
    #[error("buffer `{buffer}` is in use by a command buffer that has not completed")]
    Busy {
        /// The buffer.
        buffer: String,
    },
    /// A GPU that cannot do what kernels need.
    #[error("device `{device}`: {reason}")]
    Unsupported {
        /// The device.
        device: String,
        /// What is missing.
        reason: String,
    },
    /// A trace for a developer's tools that cannot be written.
    #[error("GPU trace {path}: {message}")]
    Capture {
        /// Where it should go.
        path: String,
        /// What is in the way.
        message: String,
    },
    /// A source that does not compile.
    #[error("library `{library}` does not compile: {message}")]
    Compile {
        /// The library.
        library: String,
        /// The compiler's messages.
        message: String,
    },
    /// Bytes that the host reads although they mean nothing.
    #[error(
        "buffer `{buffer}`: the bytes from {offset} were discarded, and nothing has written them since"
    )]
    Discarded {
        /// The buffer.
        buffer: String,
        /// The first of those bytes.
        offset: usize,
    },
    /// A compiled library that the device refuses, or that is none.
    #[error("library `{library}` cannot be used here: {message}")]
    Library {
        /// The library.
        library: String,
        /// What is different.
        message: String,
    },
    /// A kernel that a library does not have.
    #[error("library `{library}` has no kernel `{kernel}`")]
    UnknownKernel {
        /// The library.
        library: String,
        /// The kernel.
        kernel: String,
    },
    /// A kernel that the device cannot make ready to run.
    #[error("kernel `{kernel}`: {message}")]
    Pipeline {
        /// The kernel.
        kernel: String,
        /// What the device said.
        message: String,
    },
    /// Function constants that do not fit a kernel.
    #[error("kernel `{kernel}`, function constant {index}: {message}")]
    Constant {
        /// The kernel.
        kernel: String,
        /// Index of the constant.
        index: u32,
        /// What is wrong.
        message: String,
    },
    /// A dispatch or copy that cannot be encoded.
    #[error("`{label}`: {message}")]
    Encode {
        /// The dispatch.
        label: String,
        /// What is wrong, with the values.
        message: String,
    },
    /// Work that was encoded and will not run.
    #[error("work encoded before is lost: {cause}")]
    Lost {
        /// What failed then.
        cause: String,
    },
    /// Work that did not end in time.
    #[error("command buffer `{label}` did not complete within {limit:?}; last dispatches: {}", recent.join(", "))]
    TimedOut {
        /// The command buffer.
        label: String,
        /// The time it had.
        limit: Duration,
        /// Labels of its last dispatches, oldest first.
        recent: Vec<String>,
    },
    /// Work that failed.
    #[error("command buffer `{label}` failed: {message}; last dispatches: {}", recent.join(", "))]
    Failed {
        /// The command buffer.
        label: String,
        /// What the device said.
        message: String,
        /// Labels of its last dispatches, oldest first.
        recent: Vec<String>,
    },
}
