//! The cross-backend operation table.
//!
//! A [`Case`] is one node with concrete inputs, weights and KV region. Its expected value is computed
//! in f64 from the definition in `minfer_graph::Op`, with weights and cells decoded by `minfer-gguf`;
//! no backend takes part. A backend's crate checks itself by listing a [`Column`] per configuration
//! and calling [`check`] for each of [`cases`].
//!
//! Edits of KV rows are no nodes; they have [`edit_cases`] and [`check_edit`] of their own.

mod accuracy;
mod case;
mod cases;
mod check;
mod edits;
mod limit;
mod random;
mod reference;
mod run;

pub use accuracy::{Accuracy, Worst};
pub use case::{Case, Region, Value};
pub use cases::{cases, op_names};
pub use check::{Column, Mismatch, check};
pub use edits::{EditCase, check_edit, edit_cases, edit_names, run_edit};
pub use limit::{Limit, Precision};
pub use run::{Placement, RowRange, Run, run};
