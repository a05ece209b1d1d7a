//! Packed operands and accumulators.
//!
//! Both operands are cut into tiles of 16 rows and 32 columns (a *step* of the sum). Where an element
//! is the sum of two terms, a step has a tile for each. A panel is 16 rows, `[step][term]`, so a kernel
//! reads it front to back.

/// Rows of a tile: output rows of the weight, or rows of the activations.
pub const ROWS: usize = 16;
/// Columns of a tile: consecutive elements of the sum.
pub const STEP: usize = 32;

/// 16 rows × 32 columns of an operand.
///
/// A weight tile is row-major. An activation tile holds, for each pair of columns, both elements of
/// all 16 rows (`[16][16][2]`) as bf16, or each column of all rows (`[32][16]`) as f32.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Tile<T>(pub [T; ROWS * STEP]);

/// A 32 × 32 block of the product: `[panel][group][output][row]`, where `panel` and `group` are
/// halves of the outputs and of the rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Block(pub [[[[f32; ROWS]; ROWS]; 2]; 2]);

impl Block {
    /// All zero.
    pub const ZERO: Block = Block([[[[0.0; ROWS]; ROWS]; 2]; 2]);
}

/// An element of a packed operand.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// The buffer for this element type.
    fn of(buffers: &Buffers) -> &Vec<Tile<Self>>;
    /// The buffer for this element type.
    fn of_mut(buffers: &mut Buffers) -> &mut Vec<Tile<Self>>;

    /// At least `n` tiles.
    fn reserve(buffers: &mut Buffers, n: usize) -> &mut [Tile<Self>] {
        let tiles = Self::of_mut(buffers);
        if tiles.len() < n {
            tiles.resize(n, Tile([Self::default(); ROWS * STEP]));
        }
        &mut tiles[..n]
    }
}

/// Reusable storage of a packed operand, bf16 (as its bits) or f32.
#[derive(Default)]
pub struct Buffers {
    bf16: Vec<Tile<u16>>,
    f32: Vec<Tile<f32>>,
}

impl Element for u16 {
    fn of(buffers: &Buffers) -> &Vec<Tile<u16>> {
        &buffers.bf16
    }

    fn of_mut(buffers: &mut Buffers) -> &mut Vec<Tile<u16>> {
        &mut buffers.bf16
    }
}

impl Element for f32 {
    fn of(buffers: &Buffers) -> &Vec<Tile<f32>> {
        &buffers.f32
    }

    fn of_mut(buffers: &mut Buffers) -> &mut Vec<Tile<f32>> {
        &mut buffers.f32
    }
}
