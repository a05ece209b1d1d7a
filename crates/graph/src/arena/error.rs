//! Why the arena refuses an operation.

use super::SequenceId;

/// A refused operation. The arena is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArenaError {
    /// More cells than a step's 32-bit inputs can name.
    #[error("an arena of {cells} cells is larger than {limit}")]
    TooLarge {
        /// Cells asked for.
        cells: usize,
        /// Most cells.
        limit: usize,
    },
    /// The sequence was never made, or was released.
    #[error("{sequence} does not exist")]
    UnknownSequence {
        /// The sequence.
        sequence: SequenceId,
    },
    /// Too few cells are free.
    #[error("{sequence} needs {needed} cells, {free} of {cells} are free")]
    Full {
        /// Sequence that needs cells.
        sequence: SequenceId,
        /// Cells it needs beyond those it has.
        needed: usize,
        /// Cells without an owner, counting those the operation would free.
        free: usize,
        /// Cells of the arena.
        cells: usize,
    },
    /// Positions grew beyond a step's 32-bit inputs.
    #[error("{sequence} ends at position {end}, {tokens} more pass the limit of {limit}")]
    PositionLimit {
        /// The sequence.
        sequence: SequenceId,
        /// Its next position, after what is reserved.
        end: usize,
        /// Positions asked for.
        tokens: usize,
        /// Most positions.
        limit: usize,
    },
    /// A range is reversed or passes the end of its sequence.
    #[error("positions {start}..{end} are no range of {sequence}, whose next position is {next}")]
    Range {
        /// The sequence.
        sequence: SequenceId,
        /// First position of the range.
        start: usize,
        /// One past the last.
        end: usize,
        /// Next position of the sequence.
        next: usize,
    },
    /// A step names a position without a row.
    #[error("{sequence} has no row at position {position}, its next position is {next}")]
    Vacant {
        /// The sequence.
        sequence: SequenceId,
        /// The position.
        position: usize,
        /// Next position of the sequence.
        next: usize,
    },
    /// A step would store into a row that other sequences read.
    #[error("position {position} of {sequence} is in cell {cell}, which {owners} sequences share")]
    SharedStore {
        /// The sequence.
        sequence: SequenceId,
        /// The position.
        position: usize,
        /// Its cell.
        cell: usize,
        /// Owners of the cell.
        owners: usize,
    },
    /// A query's window has more runs of cells than a window input holds.
    #[error(
        "the window of position {position} of {sequence} has {runs} runs of cells, more than {limit}"
    )]
    TooManyRuns {
        /// The sequence.
        sequence: SequenceId,
        /// Position of the query.
        position: usize,
        /// Runs of its window.
        runs: usize,
        /// Most runs.
        limit: usize,
    },
    /// No moves bring a sequence down to the runs a window holds.
    #[error(
        "{sequence} has {runs} runs of cells, more than {limit}, and cannot be gathered: it shares \
         {shared} cells, {free} of {cells} are free"
    )]
    Fragmented {
        /// The sequence.
        sequence: SequenceId,
        /// Its runs.
        runs: usize,
        /// Most runs.
        limit: usize,
        /// Its cells that other sequences own too.
        shared: usize,
        /// Cells without an owner.
        free: usize,
        /// Cells of the arena.
        cells: usize,
    },
}
