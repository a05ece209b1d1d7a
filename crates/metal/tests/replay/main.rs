//! Replay bundles, recorded and replayed on the software device.

#![cfg(target_os = "linux")]

mod malformed;
mod recording;
mod replaying;
mod scene;
