//! Many requests on one engine.

mod fairness;
mod lifetimes;
mod sharing;
mod support;
