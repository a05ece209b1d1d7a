//! Barriers of the kernels, and how the command line names them.

use anyhow::Result;
use minfer_metal::kernels;
use minfer_softmetal::lint::{self, Barrier};
use minfer_softmetal::report::SourcePlace;

use crate::arguments;

/// Every barrier of the kernel files.
pub fn shipped() -> Result<Vec<Barrier>> {
    let mut known: Vec<Barrier> = Vec::new();
    for &file in kernels::ALL {
        for barrier in lint::barriers(&kernels::library(file)?)? {
            // Headers are in several files.
            if !known.contains(&barrier) {
                known.push(barrier);
            }
        }
    }
    Ok(known)
}

/// A usage error unless there is a barrier.
pub fn check_shipped(place: &SourcePlace) -> Result<()> {
    if shipped()?.iter().any(|barrier| barrier.place == *place) {
        return Ok(());
    }
    let at = position(place);
    Err(arguments::invalid(format_args!(
        "no barrier of the kernels is at {at}: `minfer metal mutate` lists them"
    )))
}

/// FILE:LINE:COLUMN.
pub fn position(place: &SourcePlace) -> String {
    format!("{}:{}:{}", place.file, place.line, place.column)
}

/// The inverse of [`position`].
pub fn parse(text: &str) -> Result<SourcePlace, &'static str> {
    let parts = || {
        let (rest, column) = text.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        Some(SourcePlace {
            file: file.to_owned(),
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        })
    };
    parts().ok_or("not FILE:LINE:COLUMN")
}
