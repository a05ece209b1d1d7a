//! Which cells a query attends to.

use minfer_graph::{MAX_WINDOW_RUNS, WindowLayout};

use crate::view::MatRef;

/// A run of consecutive cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: usize,
    pub(crate) len: usize,
}

/// The cells of one query in ascending position, as runs. Indices into their concatenation are the
/// key positions that attention counts its blocks in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    runs: [Run; MAX_WINDOW_RUNS],
    len: usize,
}

/// A window that no region has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WindowError {
    /// A causal window ends at a position without a cell.
    #[error("row {row} has position {position}, the region has {cells} cells")]
    Position {
        row: usize,
        position: i32,
        cells: usize,
    },
    /// A window has more runs than a graph can say.
    #[error("row {row} has a window of {runs} runs, at most {MAX_WINDOW_RUNS} are possible")]
    Runs { row: usize, runs: usize },
    /// A run of a window ends behind the region, or starts before it.
    #[error("row {row} attends to cells {first}..{end}, the region has {cells} cells")]
    Run {
        row: usize,
        first: i64,
        end: i64,
        cells: usize,
    },
}

impl Window {
    /// The window of `row`, from its position or, unless causal, its row of the window input.
    pub(crate) fn read(
        layout: WindowLayout,
        row: usize,
        positions: MatRef<'_, i32>,
        input: Option<MatRef<'_, i32>>,
        cells: usize,
    ) -> Result<Window, WindowError> {
        let mut window = Window::default();
        match (layout, input) {
            (WindowLayout::Causal, _) | (_, None) => {
                let position = positions.row(row)[0];
                if position < 0 || position as usize >= cells {
                    return Err(WindowError::Position {
                        row,
                        position,
                        cells,
                    });
                }
                window.push(
                    0,
                    Run {
                        first: 0,
                        len: position as usize + 1,
                    },
                );
            }
            (WindowLayout::Span, Some(input)) => {
                let bounds = input.row(row);
                let run = checked_run(row, bounds[0].into(), bounds[1].into(), cells)?;
                window.push(0, run);
            }
            (WindowLayout::Map, Some(input)) => {
                let (pairs, _) = input.row(row).as_chunks::<2>();
                if pairs.len() > MAX_WINDOW_RUNS {
                    let runs = pairs.len();
                    return Err(WindowError::Runs { row, runs });
                }
                for (i, &[first, len]) in pairs.iter().enumerate() {
                    let end = i64::from(first) + i64::from(len);
                    window.push(i, checked_run(row, first.into(), end, cells)?);
                }
            }
        }
        Ok(window)
    }

    fn push(&mut self, index: usize, run: Run) {
        self.runs[index] = run;
        self.len += run.len;
    }

    /// Cells in the window.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Cells at key positions `start .. start + out.len()`, which must be in the window.
    pub(crate) fn cells(&self, start: usize, out: &mut [usize]) {
        let mut skip = start;
        let mut filled = 0;
        for run in &self.runs {
            if skip >= run.len {
                skip -= run.len;
                continue;
            }
            for cell in run.first + skip..run.first + run.len {
                if filled == out.len() {
                    return;
                }
                out[filled] = cell;
                filled += 1;
            }
            skip = 0;
        }
        assert_eq!(filled, out.len(), "{start} is outside {self:?}");
    }

    /// Whether the cells of `self` are the first cells of `other`.
    pub(crate) fn is_prefix_of(&self, other: &Window) -> bool {
        let mut rest = self.len;
        for (own, other) in self.runs.iter().zip(&other.runs) {
            if rest == 0 {
                return true;
            }
            let same_start = own.first == other.first || own.len == 0 && other.len == 0;
            if !same_start || own.len > other.len || own.len < other.len && own.len < rest {
                return false;
            }
            rest -= own.len;
        }
        rest == 0
    }
}

fn checked_run(row: usize, first: i64, end: i64, cells: usize) -> Result<Run, WindowError> {
    if first == end {
        return Ok(Run::default());
    }
    if first < 0 || end < first || end > cells as i64 {
        return Err(WindowError::Run {
            row,
            first,
            end,
            cells,
        });
    }
    Ok(Run {
        first: first as usize,
        len: (end - first) as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: &[i32]) -> Result<Window, WindowError> {
        let mut padded = values.to_vec();
        padded.resize(values.len().max(2 * MAX_WINDOW_RUNS), 0);
        let input = MatRef::new(&padded, padded.len(), 1);
        Window::read(
            WindowLayout::Map,
            0,
            MatRef::new(&[0], 1, 1),
            Some(input),
            100,
        )
    }

    fn cells(window: &Window, start: usize, len: usize) -> Vec<usize> {
        let mut out = vec![0; len];
        window.cells(start, &mut out);
        out
    }

    #[test]
    fn runs_concatenate() {
        let window = map(&[10, 3, 50, 0, 40, 2]).expect("in range");
        assert_eq!(window.len(), 5);
        assert_eq!(cells(&window, 0, 5), [10, 11, 12, 40, 41]);
        assert_eq!(cells(&window, 2, 2), [12, 40]);
        assert_eq!(cells(&window, 4, 1), [41]);
    }

    #[test]
    fn prefixes() {
        let long = map(&[10, 3, 40, 5]).expect("in range");
        for (other, is_prefix) in [
            (vec![10, 3, 40, 5], true),
            (vec![10, 3, 40, 2], true),
            (vec![10, 2], true),
            (vec![10, 2, 40, 1], false),
            (vec![11, 2], false),
            (vec![10, 4], false),
            (vec![], true),
        ] {
            let other = map(&other).expect("in range");
            assert_eq!(other.is_prefix_of(&long), is_prefix, "{other:?}");
        }
    }

    #[test]
    fn a_fifth_run_is_refused_not_dropped() {
        let runs = [0, 1, 2, 1, 4, 1, 6, 1, 8, 1];
        assert_eq!(map(&runs[..8]).map(|w| w.len()), Ok(4));
        assert_eq!(map(&runs), Err(WindowError::Runs { row: 0, runs: 5 }));
    }

    #[test]
    fn windows_outside_the_region_are_refused() {
        assert!(map(&[98, 3]).is_err());
        assert!(map(&[-1, 3]).is_err());
        assert!(map(&[5, -1]).is_err());
        assert!(map(&[i32::MAX, i32::MAX]).is_err());
        let position =
            |p: i32| Window::read(WindowLayout::Causal, 0, MatRef::new(&[p], 1, 1), None, 100);
        assert_eq!(position(99).map(|w| w.len()), Ok(100));
        assert!(position(100).is_err());
        assert!(position(-1).is_err());
    }
}
