//! The activations of a call, packed once for all threads and output rows.

use std::marker::PhantomData;
use std::ops::Range;

use super::kernel::{Group, Kernel};
use super::precision::PrefillPrecision;
use super::tile::{Buffers, Element, ROWS, STEP, Tile};
use super::with_kernel;
use crate::isa::Isa;

/// Activations in the operand format of an instruction set: a panel for each group of 16 rows.
/// Reusable: packing again keeps the memory.
pub(crate) struct PackedRows {
    precision: PrefillPrecision,
    isa: Isa,
    rows: usize,
    width: usize,
    terms: usize,
    tiles: Buffers,
}

impl PackedRows {
    /// No rows yet.
    pub fn new(precision: PrefillPrecision) -> Self {
        PackedRows {
            precision,
            isa: Isa::Scalar,
            rows: 0,
            width: 0,
            terms: 1,
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
            terms: 1,
            tiles: std::ptr::null_mut(),
            run: |_, _| {},
            _rows: PhantomData,
        };
        with_kernel!(isa, K => {
            packer.terms = <K as Kernel>::terms(self.precision);
            let tiles = packer.groups() * packer.panel_len();
            let tiles = <<K as Kernel>::Element as Element>::reserve(&mut self.tiles, tiles);
            packer.tiles = tiles.as_mut_ptr().cast();
            packer.run = Packer::run::<K>;
        });
        self.terms = packer.terms;
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

    /// Terms of an element; the weights they are multiplied with have as many.
    pub(super) fn terms(&self) -> usize {
        self.terms
    }

    /// Steps `steps` of the panel of a group.
    pub(super) fn panel<T: Element>(&self, group: usize, steps: Range<usize>) -> &[Tile<T>] {
        let length = self.width.div_ceil(STEP) * self.terms;
        let tiles = steps.start * self.terms..steps.end * self.terms;
        &T::of(&self.tiles)[group * length..][..length][tiles]
    }
}

/// Rows being packed by several threads.
pub(crate) struct Packer<'a> {
    x: &'a [f32],
    stride: usize,
    rows: usize,
    width: usize,
    terms: usize,
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

    /// Tiles of a panel.
    fn panel_len(&self) -> usize {
        self.width.div_ceil(STEP) * self.terms
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
        let length = self.panel_len();
        for group in groups {
            let first = group * ROWS;
            // SAFETY: `packer` reserved the panels of all groups, and each is used by one thread.
            let panel =
                unsafe { std::slice::from_raw_parts_mut(tiles.add(group * length), length) };
            let rows = Group {
                rows: &self.x[first * self.stride..],
                stride: self.stride,
                n: (self.rows - first).min(ROWS),
                width: self.width,
            };
            // SAFETY: the level is available; see `packer`.
            unsafe { K::pack_group(rows, panel, self.terms) }
        }
    }
}
