use minfer_graph::KvFormat;

use super::*;
use crate::ops::kv;

/// Deterministic values in [-1, 1).
fn noise(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

struct Case {
    shape: Shape,
    format: KvFormat,
    cells: usize,
    layout: WindowLayout,
    positions: Vec<i32>,
    window: Vec<i32>,
    q: Vec<f32>,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Case {
    fn new(heads: usize, kv_heads: usize, head_dim: usize, format: KvFormat, cells: usize) -> Self {
        let width = kv_heads * head_dim;
        let encode = |seed| {
            let mut bytes = Vec::new();
            for c in 0..cells {
                let mut cell = vec![0; format.cell_bytes(width).expect("whole blocks")];
                let row: Vec<f32> = noise(seed + c as u64, width)
                    .iter()
                    .map(|x| x * 2.0)
                    .collect();
                kv::store(format, Isa::Scalar, &mut cell, &row);
                bytes.extend(cell);
            }
            bytes
        };
        let scale = 1.0 / (head_dim as f32).sqrt();
        Case {
            shape: Shape {
                heads,
                kv_heads,
                head_dim,
                scale,
            },
            format,
            cells,
            layout: WindowLayout::Causal,
            positions: Vec::new(),
            window: Vec::new(),
            q: Vec::new(),
            keys: encode(1000),
            values: encode(900_000),
        }
    }

    fn causal(mut self, positions: impl IntoIterator<Item = i32>) -> Self {
        self.positions = positions.into_iter().collect();
        self.fill_queries()
    }

    fn windowed(mut self, layout: WindowLayout, window: &[i32]) -> Self {
        self.layout = layout;
        self.window = window.to_vec();
        self.positions = vec![0; window.len() / layout.input_width()];
        self.fill_queries()
    }

    fn fill_queries(mut self) -> Self {
        let width = self.shape.heads * self.shape.head_dim;
        self.q = noise(7, self.positions.len() * width)
            .iter()
            .map(|x| x * 3.0)
            .collect();
        self
    }

    fn width(&self) -> usize {
        self.shape.heads * self.shape.head_dim
    }

    fn cells_of<'a>(&self, bytes: &'a [u8]) -> Cells<'a> {
        Cells {
            bytes,
            cell_bytes: bytes.len() / self.cells,
            format: self.format,
        }
    }

    /// Attends rows `rows`, the first `prompt_rows` of them as prompt rows.
    fn run(
        &self,
        isa: Isa,
        threads: usize,
        rows: std::ops::Range<usize>,
        prompt_rows: usize,
    ) -> Vec<f32> {
        let pool = Pool::new(threads).expect("threads");
        let mut out = vec![f32::NAN; rows.len() * self.width()];
        let window_width = self.layout.input_width();
        let all = self.positions.len();
        let inputs = Inputs {
            shape: self.shape,
            q: MatRef::new(&self.q, self.width(), all).slice_rows(rows.clone()),
            prompt_rows,
            regions: Regions {
                keys: self.cells_of(&self.keys),
                values: self.cells_of(&self.values),
            },
            cells: self.cells,
            layout: self.layout,
            positions: MatRef::new(&self.positions, 1, all).slice_rows(rows.clone()),
            window: (window_width > 0)
                .then(|| MatRef::new(&self.window, window_width, all).slice_rows(rows.clone())),
        };
        let view = MatMut::new(&mut out, self.width(), rows.len());
        attend(isa, &pool, inputs, &mut Scratch::default(), view).expect("windows in range");
        out
    }

    /// Cells of a row's window, from the definition of the layouts.
    fn window_cells(&self, row: usize) -> Vec<usize> {
        let input = |i: usize| self.window[row * self.layout.input_width() + i] as usize;
        match self.layout {
            WindowLayout::Causal => (0..=self.positions[row] as usize).collect(),
            WindowLayout::Span => (input(0)..input(1)).collect(),
            WindowLayout::Map => (0..4)
                .flat_map(|run| input(2 * run)..input(2 * run) + input(2 * run + 1))
                .collect(),
        }
    }

    /// The definition, in f64, with the stored keys and values.
    fn expected(&self, row: usize) -> Vec<f64> {
        let Shape {
            heads,
            head_dim,
            scale,
            ..
        } = self.shape;
        let decode = |bytes: &[u8], cell: usize, head: usize| {
            let mut to = vec![0.0; head_dim];
            let cell = self
                .cells_of(bytes)
                .bytes
                .chunks(bytes.len() / self.cells)
                .nth(cell);
            let feature = head / self.shape.group() * head_dim;
            kv::load(
                Isa::Scalar,
                self.format,
                cell.expect("a cell"),
                feature,
                &mut to,
            );
            to
        };
        let mut out = vec![0.0; heads * head_dim];
        for head in 0..heads {
            let q = &self.q[row * self.width() + head * head_dim..][..head_dim];
            let cells = self.window_cells(row);
            let dot = |k: &[f32]| -> f64 {
                q.iter()
                    .zip(k)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum()
            };
            let scores: Vec<f64> = cells
                .iter()
                .map(|&c| f64::from(scale) * dot(&decode(&self.keys, c, head)))
                .collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
            for (&cell, score) in cells.iter().zip(&scores) {
                let weight = (score - largest).exp() / total;
                let values = decode(&self.values, cell, head);
                for (out, v) in out[head * head_dim..][..head_dim].iter_mut().zip(values) {
                    *out += weight * f64::from(v);
                }
            }
        }
        out
    }

    /// Compares both paths on every instruction set with the definition.
    fn check(&self) {
        let rows = self.positions.len();
        for isa in Isa::available() {
            for prompt_rows in [0, rows / 2, rows] {
                let got = self.run(isa, 2, 0..rows, prompt_rows);
                for (row, got) in got.chunks_exact(self.width()).enumerate() {
                    for (i, (got, want)) in got.iter().zip(self.expected(row)).enumerate() {
                        // Sums of a few hundred products of f32 rounding, values up to 2.
                        assert!(
                            (f64::from(*got) - want).abs() < 5e-6,
                            "{isa} row {row} of {rows} ({prompt_rows} prompt) feature {i}: {got} instead of {want}"
                        );
                    }
                }
            }
        }
    }
}

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

#[test]
fn causal_rows_of_a_prompt() {
    for format in FORMATS {
        Case::new(14, 2, 64, format, 150).causal(0..150).check();
        Case::new(4, 4, 32, format, 70).causal([69, 3, 68]).check();
    }
}

#[test]
fn long_windows_are_split() {
    for format in FORMATS {
        Case::new(6, 2, 64, format, 800)
            .causal([799, 255, 256, 600])
            .check();
    }
}

#[test]
fn odd_head_dimensions() {
    Case::new(3, 1, 80, KvFormat::F16, 90)
        .causal(80..90)
        .check();
    Case::new(4, 2, 128, KvFormat::F32, 90)
        .causal(80..90)
        .check();
    Case::new(4, 2, 24, KvFormat::F32, 90)
        .causal(80..90)
        .check();
    Case::new(8, 4, 40, KvFormat::Q8_0, 90)
        .causal(80..90)
        .check();
}

#[test]
fn spans_and_maps() {
    for format in FORMATS {
        let spans = [10, 20, 10, 90, 11, 90, 0, 1, 89, 90];
        Case::new(4, 2, 32, format, 90)
            .windowed(WindowLayout::Span, &spans)
            .check();
        let maps = [
            5, 10, 40, 3, 0, 0, 0, 0, //
            5, 10, 40, 30, 80, 2, 0, 7, //
            70, 20, 0, 70, 0, 0, 0, 0, //
            1, 1, 3, 1, 5, 1, 7, 1,
        ];
        Case::new(4, 2, 32, format, 90)
            .windowed(WindowLayout::Map, &maps)
            .check();
    }
}

#[test]
fn an_empty_window_gives_zeros() {
    let case = Case::new(4, 2, 32, KvFormat::F32, 90).windowed(WindowLayout::Span, &[5, 5, 0, 90]);
    for prompt_rows in [0, 2] {
        let out = case.run(Isa::detect(), 1, 0..2, prompt_rows);
        assert!(out[..128].iter().all(|&x| x == 0.0));
        assert!(out[128..].iter().any(|&x| x != 0.0));
    }
}

#[test]
fn companions_and_threads_do_not_change_a_bit() {
    let maps = [
        5, 10, 40, 3, 0, 0, 0, 0, //
        5, 10, 40, 30, 80, 2, 0, 7, //
        5, 10, 40, 30, 80, 2, 0, 1, //
        0, 400, 0, 0, 0, 0, 0, 0, //
        0, 300, 0, 0, 0, 0, 0, 0,
    ];
    let cases = [
        Case::new(14, 2, 64, KvFormat::Q8_0, 400).causal(0..400),
        Case::new(9, 3, 64, KvFormat::F32, 400).causal(250..400),
        Case::new(2, 2, 32, KvFormat::F16, 400).windowed(WindowLayout::Map, &maps),
    ];
    for case in &cases {
        let rows = case.positions.len();
        for isa in Isa::available() {
            if isa == Isa::Scalar && rows > 5 {
                continue;
            }
            for prompt_rows in [0, rows] {
                let whole = case.run(isa, 2, 0..rows, prompt_rows);
                for threads in [1, 3] {
                    assert_eq!(whole, case.run(isa, threads, 0..rows, prompt_rows));
                }
                let step = rows.div_ceil(7);
                for first in (0..rows).step_by(step) {
                    let part = first..(first + step).min(rows);
                    let want = &whole[part.start * case.width()..part.end * case.width()];
                    let got = case.run(isa, 2, part.clone(), prompt_rows.min(part.len()));
                    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&got), bits(want), "{isa} rows {part:?}");
                }
            }
        }
    }
}

/// Rows that see no poisoned cell are what they are without it; a row that sees one is not finite.
fn check_poison(case: &mut Case, cells: &[usize]) {
    let rows = case.positions.len();
    let clean = (case.keys.clone(), case.values.clone());
    for isa in Isa::available() {
        for prompt_rows in [0, rows / 2, rows] {
            (case.keys, case.values) = clean.clone();
            let expected = case.run(isa, 1, 0..rows, prompt_rows);
            for (&cell, poison) in cells.iter().zip([f32::NAN, f32::INFINITY].iter().cycle()) {
                for bytes in [&mut case.keys, &mut case.values] {
                    let size = bytes.len() / case.cells;
                    for word in bytes[cell * size..][..size].chunks_exact_mut(4) {
                        word.copy_from_slice(&poison.to_le_bytes());
                    }
                }
            }
            let found = case.run(isa, 1, 0..rows, prompt_rows);
            let rows = found
                .chunks(case.width())
                .zip(expected.chunks(case.width()));
            for (row, (found, expected)) in rows.enumerate() {
                let sees = case
                    .window_cells(row)
                    .iter()
                    .any(|cell| cells.contains(cell));
                let what = format!("{isa} row {row}, {prompt_rows} prompt rows");
                match sees {
                    true => assert!(found.iter().all(|x| !x.is_finite()), "{what}"),
                    false => assert_eq!(found, expected, "{what}"),
                }
            }
        }
    }
}

#[test]
fn a_later_row_that_is_not_finite_does_not_spoil_earlier_rows_of_its_tile() {
    for (heads, kv_heads) in [(14, 2), (4, 4)] {
        for cell in [1, 37, 64, 75] {
            let case = Case::new(heads, kv_heads, 32, KvFormat::F32, 80).causal(0..80);
            check_poison(&mut { case }, &[cell]);
        }
    }
    let case = Case::new(4, 4, 32, KvFormat::F32, 80).causal([3, 79, 10, 50, 66]);
    check_poison(&mut { case }, &[11, 67]);
}

#[test]
fn stale_rows_of_a_released_sequence_do_not_reach_its_neighbours() {
    // Two sequences share cells 0..3; cells 6..8 and 12..20 belonged to others.
    let maps = [
        0, 3, 3, 2, 0, 0, 0, 0, //
        0, 3, 3, 3, 0, 0, 0, 0, //
        0, 3, 8, 1, 0, 0, 0, 0, //
        0, 3, 8, 2, 0, 0, 0, 0, //
        0, 3, 8, 4, 20, 2, 0, 0,
    ];
    let case = Case::new(4, 4, 32, KvFormat::F32, 90).windowed(WindowLayout::Map, &maps);
    check_poison(&mut { case }, &[6, 7, 12, 13, 14, 15, 16, 17, 18, 19]);
    let spans = [3, 6, 3, 5, 8, 10, 8, 12];
    let case = Case::new(4, 4, 32, KvFormat::F32, 90).windowed(WindowLayout::Span, &spans);
    check_poison(&mut { case }, &[0, 2, 6, 7, 12, 13, 89]);
}

#[test]
fn a_position_without_a_cell_is_refused() {
    let mut case = Case::new(4, 2, 32, KvFormat::F32, 90).causal([89]);
    case.positions[0] = 90;
    let pool = Pool::new(1).expect("threads");
    let mut out = vec![0.0; 128];
    let inputs = Inputs {
        shape: case.shape,
        q: MatRef::new(&case.q, 128, 1),
        prompt_rows: 1,
        regions: Regions {
            keys: case.cells_of(&case.keys),
            values: case.cells_of(&case.values),
        },
        cells: case.cells,
        layout: case.layout,
        positions: MatRef::new(&case.positions, 1, 1),
        window: None,
    };
    let view = MatMut::new(&mut out, 128, 1);
    let error = attend(Isa::detect(), &pool, inputs, &mut Scratch::default(), view);
    let message = error.expect_err("out of range").to_string();
    assert_eq!(message, "row 0 has position 90, the region has 90 cells");
}
