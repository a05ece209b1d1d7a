//! Values that describe work.

use super::{Buffer, Device, DeviceError};

/// Three extents: x, y, z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size(pub [u32; 3]);

impl Size {
    /// `x` by 1 by 1.
    pub const fn linear(x: u32) -> Self {
        Size([x, 1, 1])
    }

    /// Product of the extents, at most `u64::MAX`.
    pub fn count(self) -> u64 {
        let [x, y, z] = self.0.map(u64::from);
        (x * y).saturating_mul(z)
    }
}

/// How many threads a dispatch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grid {
    /// Exactly so many threads; threadgroups at the upper edges are smaller.
    Threads(Size),
    /// So many full threadgroups.
    Threadgroups(Size),
}

impl Grid {
    /// Threadgroups of `threadgroup` threads that the grid takes.
    pub fn threadgroups(self, threadgroup: Size) -> Size {
        match self {
            Grid::Threadgroups(groups) => groups,
            Grid::Threads(Size(threads)) => {
                let groups = |axis: usize| threads[axis].div_ceil(threadgroup.0[axis].max(1));
                Size([groups(0), groups(1), groups(2)])
            }
        }
    }
}

/// Whether dispatches of an encoder wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Each starts when the one before has completed.
    Serial,
    /// Only barriers order them.
    Concurrent,
}

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it, perhaps after reading.
    Write,
}

/// Part of a buffer.
#[derive(Debug)]
pub struct BufferRange<'a, B> {
    /// The buffer.
    pub buffer: &'a B,
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub bytes: usize,
}

impl<'a, B: Buffer> BufferRange<'a, B> {
    /// All of a buffer.
    pub fn whole(buffer: &'a B) -> Self {
        BufferRange {
            buffer,
            offset: 0,
            bytes: buffer.bytes(),
        }
    }

    /// An error unless the range lies within the buffer.
    pub fn check(&self) -> Result<(), DeviceError> {
        let end = self.offset.checked_add(self.bytes);
        if end.is_some_and(|end| end <= self.buffer.bytes()) {
            return Ok(());
        }
        Err(DeviceError::OutOfRange {
            buffer: self.buffer.label().to_owned(),
            offset: self.offset,
            length: self.bytes,
            bytes: self.buffer.bytes(),
        })
    }
}

/// What a kernel parameter is bound to.
#[derive(Debug)]
pub enum Argument<'a, B> {
    /// `[[buffer(index)]]`: the logical range that the kernel touches, whatever the buffer's size.
    Buffer {
        /// Index of the parameter.
        index: u32,
        /// The bytes that the kernel may touch.
        range: BufferRange<'a, B>,
        /// What it does with them.
        access: Access,
    },
    /// `[[buffer(index)]]`: a small value, copied now.
    Bytes {
        /// Index of the parameter.
        index: u32,
        /// The value, at most 4096 bytes.
        bytes: &'a [u8],
    },
    /// `[[threadgroup(index)]]`: memory shared by a threadgroup.
    Threadgroup {
        /// Index of the parameter.
        index: u32,
        /// Size in bytes, a multiple of 16.
        bytes: usize,
    },
}

/// A kernel to run.
pub struct Dispatch<'a, D: Device> {
    /// Name for errors and traces, such as the graph node's.
    pub label: &'a str,
    /// The kernel.
    pub pipeline: &'a D::Pipeline,
    /// Its arguments.
    pub arguments: &'a [Argument<'a, D::Buffer>],
    /// Number of threads.
    pub grid: Grid,
    /// Threads per threadgroup.
    pub threadgroup: Size,
}

/// A copy of bytes.
#[derive(Debug)]
pub struct BufferCopy<'a, B> {
    /// Bytes to read.
    pub from: BufferRange<'a, B>,
    /// Buffer to write.
    pub to: &'a B,
    /// First byte to write.
    pub to_offset: usize,
}

/// References copy whatever they refer to.
macro_rules! copy_references {
    ($($name:ident),*) => {$(
        impl<B> Clone for $name<'_, B> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<B> Copy for $name<'_, B> {}
    )*};
}
copy_references!(BufferRange, Argument, BufferCopy);
pub(crate) use copy_references;

/// Value of a function constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConstantValue {
    /// `bool`
    Bool(bool),
    /// `int`
    I32(i32),
    /// `uint`
    U32(u32),
    /// `ushort`
    U16(u16),
    /// `float`
    F32(f32),
}
