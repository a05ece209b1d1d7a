//! Loading, prefill, decode and sampling.

mod config;
pub mod sampling;

pub use config::{Config, ConfigError, Setting, kv_format_name, parse_kv_format};
