//! Flags that several commands share.

mod answering;
mod color;
mod drafting;
mod loading;
mod sampling;
mod session;

pub use answering::AnsweringOptions;
pub use color::ColorOption;
pub use drafting::DraftingOptions;
pub use loading::{LoadingOptions, OffloadOptions};
pub use sampling::SamplingOptions;
pub use session::SessionOptions;
