//! Many requests on one engine.

mod failures;
mod fairness;
mod histories;
mod lifetimes;
mod sharing;
mod support;
