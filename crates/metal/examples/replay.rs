//! Runs a replay bundle on a Mac's GPU and compares what its dispatches leave in memory:
//!
//! ```text
//! cargo run --release -p minfer-metal --example replay -- FOLDER
//! ```
//!
//! `minfer metal export` writes bundles, on Linux. The exit status is 1 if a byte differs; sums of products may, since a
//! GPU adds in another order. Elsewhere `minfer metal replay` does the same on the software device.

use std::error::Error;
use std::process::ExitCode;

#[cfg(any(target_vendor = "apple", minfer_check_apple))]
fn replay(folder: &str) -> Result<ExitCode, Box<dyn Error>> {
    use std::path::Path;
    use std::time::Duration;

    use minfer_metal::device::apple::{AppleDevice, AppleOptions};
    use minfer_metal::replay::Bundle;

    /// Time for one dispatch.
    const LIMIT: Duration = Duration::from_secs(10);

    let device = AppleDevice::system_default(AppleOptions::default())?;
    let device = device.ok_or("this machine has no Metal device")?;
    let bundle = Bundle::open(Path::new(folder))?;
    let outcomes = bundle.replay(&device, LIMIT)?;
    for outcome in &outcomes {
        println!("{outcome}");
    }
    let different = outcomes.iter().filter(|outcome| !outcome.is_equal());
    let different = different.count();
    println!(
        "{} dispatches recorded on {}, {different} different",
        outcomes.len(),
        bundle.device()
    );
    Ok(match different {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

#[cfg(not(any(target_vendor = "apple", minfer_check_apple)))]
fn replay(_: &str) -> Result<ExitCode, Box<dyn Error>> {
    Err("this is for Macs; elsewhere `minfer metal replay` runs bundles".into())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("the folder of a bundle is needed")?;
    replay(&folder)
}
