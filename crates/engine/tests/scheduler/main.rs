//! Many requests on one engine.

mod fairness;
mod histories;
mod lifetimes;
mod sharing;
mod support;
