//! Flags that several commands share.

mod loading;
mod sampling;

pub use loading::LoadingOptions;
pub use sampling::SamplingOptions;
