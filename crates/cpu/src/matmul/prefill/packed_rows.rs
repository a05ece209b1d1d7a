//! The activations of a call, packed once for all threads and output rows.

use std::marker::PhantomData;
use std::ops::Range;

use super::kernel::{Group, Kernel};
use super::tile::{Buffers, Element, ROWS, STEP, Tile};
use super::with_kernel;
use crate::isa::Isa;

/// Terms that an activation is split into where operands are bf16.
///
/// One term rounds activations like weights, by up to 2⁻⁸ of their value. A second holds what the
/// first lost: activations become exact to 2⁻¹⁶ for twice the multiplications.
const PLANES: usize = 1;

/// Activations in the operand format of an instruction set: panels `[plane][group of 16 rows]`.
/// Reusable: packing again keeps the memory.
pub(crate) struct PackedRows {
    isa: Isa,
    rows: usize,
    width: usize,
    planes: usize,
    tiles: Buffers,
}

impl Default for PackedRows {
    fn default() -> Self {
        PackedRows::with_planes(PLANES)
    }
}

impl PackedRows {
    pub(super) fn with_planes(planes: usize) -> Self {
        PackedRows {
            isa: Isa::Scalar,
            rows: 0,
            width: 0,
            planes,
            tiles: Buffers::default(),
        }
    }

    /// Prepares to pack `rows` rows of `width` elements that start `stride` elements apart. The rows
    /// are packed once all groups are; see [`Packer::pack`].
    ///
    /// # Panics
    /// When `x` is too short or this machine lacks the level.
    pub fn packer<'a>(
        &'a mut self,
        isa: Isa,
        x: &'a [f32],
        stride: usize,
        rows: usize,
        width: usize,
    ) -> Packer<'a> {
        assert!(isa.is_available(), "{isa} on a machine without it");
        if let Some(last) = rows.checked_sub(1) {
            let end = last
                .checked_mul(stride)
                .and_then(|at| at.checked_add(width));
            assert!(
                end.is_some_and(|end| end <= x.len()),
                "{rows} rows of {width} at stride {stride} in {} activations",
                x.len()
            );
        }
        self.isa = isa;
        self.rows = rows;
        self.width = width;
        let mut packer = Packer {
            x,
            stride,
            rows,
            width,
            planes: 0,
            tiles: std::ptr::null_mut(),
            run: |_, _| {},
            _rows: PhantomData,
        };
        with_kernel!(isa, K => {
            packer.planes = self.planes::<<K as Kernel>::Element>();
            let tiles = packer.planes * packer.groups() * packer.steps();
            let tiles = <<K as Kernel>::Element as Element>::reserve(&mut self.tiles, tiles);
            packer.tiles = tiles.as_mut_ptr().cast();
            packer.run = Packer::run::<K>;
        });
        packer
    }

    /// The level these rows are packed for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// f32 operands need no second term.
    pub(super) fn planes<T: Element>(&self) -> usize {
        if size_of::<T>() == size_of::<f32>() {
            1
        } else {
            self.planes
        }
    }

    /// Steps `steps` of the panel of a group.
    pub(super) fn panel<T: Element>(
        &self,
        plane: usize,
        group: usize,
        steps: Range<usize>,
    ) -> &[Tile<T>] {
        let length = self.width.div_ceil(STEP);
        let panel = plane * self.rows.div_ceil(ROWS) + group;
        &T::of(&self.tiles)[panel * length..][..length][steps]
    }
}

/// Rows being packed by several threads.
pub(crate) struct Packer<'a> {
    x: &'a [f32],
    stride: usize,
    rows: usize,
    width: usize,
    planes: usize,
    tiles: *mut (),
    run: unsafe fn(&Packer<'a>, Range<usize>),
    _rows: PhantomData<&'a mut PackedRows>,
}

// SAFETY: the pointer stands for an exclusive borrow of tiles of plain numbers; callers of `pack`
// keep the threads' groups apart.
unsafe impl Sync for Packer<'_> {}

impl Packer<'_> {
    /// Groups of up to 16 rows: the units of work.
    pub fn groups(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    fn steps(&self) -> usize {
        self.width.div_ceil(STEP)
    }

    /// Packs a range of groups.
    ///
    /// # Safety
    /// No group is packed by two threads.
    pub unsafe fn pack(&self, groups: Range<usize>) {
        assert!(groups.end <= self.groups());
        // SAFETY: by contract nobody else packs these groups, and they exist.
        unsafe { (self.run)(self, groups) }
    }

    /// # Safety
    /// As [`Packer::pack`]; the groups exist and the tiles are those of `K`, whose level is available.
    unsafe fn run<K: Kernel>(&self, groups: Range<usize>) {
        let tiles = self.tiles.cast::<Tile<K::Element>>();
        let steps = self.steps();
        for group in groups {
            let first = group * ROWS;
            let panel = |plane: usize| {
                let at = (plane * self.groups() + group) * steps;
                // SAFETY: `packer` reserved all panels of all planes, and each is used by one thread.
                unsafe { std::slice::from_raw_parts_mut(tiles.add(at), steps) }
            };
            let rows = Group {
                rows: &self.x[first * self.stride..],
                stride: self.stride,
                n: (self.rows - first).min(ROWS),
                width: self.width,
            };
            // SAFETY: the level is available; see `packer`.
            unsafe {
                match self.planes {
                    1 => K::pack_group(rows, &mut [panel(0)]),
                    _ => K::pack_group(rows, &mut [panel(0), panel(1)]),
                }
            }
        }
    }
}
