//! Flags that several commands share.

mod answering;
mod color;
mod loading;
mod sampling;

pub use answering::AnsweringOptions;
pub use color::ColorOption;
pub use loading::LoadingOptions;
pub use sampling::SamplingOptions;
