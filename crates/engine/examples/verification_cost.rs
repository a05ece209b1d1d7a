//! Times the verification of 1 to 16 rows, in turn, and prints the medians as steps of one row:
//!
//! ```text
//! cargo run --release -p minfer-engine --example verification_cost -- MODEL.gguf [THREADS]
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use minfer_engine::{Engine, EngineOptions};

const MOST: usize = 16;
const ROUNDS: usize = 15;
const CONTEXT: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().ok_or("MODEL is missing")?;
    let options = EngineOptions {
        draft: MOST - 1,
        threads: arguments.next().map(|count| count.parse()).transpose()?,
        ..EngineOptions::default()
    };
    let mut engine = Engine::load(model, &options)?;
    let mut session = engine.session();
    let tokens: Vec<u32> = (100..).take(CONTEXT).collect();
    session.prefill(&tokens)?;
    let mut times = vec![Vec::new(); MOST];
    for _ in 0..ROUNDS {
        for (rows, times) in (1..).zip(&mut times) {
            let start = Instant::now();
            session.verify(&tokens[..rows])?;
            times.push(start.elapsed());
            session.truncate(CONTEXT);
        }
    }
    let one = median(&mut times[0]).as_secs_f64();
    for (rows, times) in (1..).zip(&mut times) {
        let time = median(times).as_secs_f64();
        let further = match rows {
            1 => String::new(),
            rows => format!(
                ", {:.2} for each further row",
                (time / one - 1.0) / f64::from(rows - 1)
            ),
        };
        println!(
            "{rows:2} rows: {:6.2} ms, {:.2} steps{further}",
            1e3 * time,
            time / one
        );
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
