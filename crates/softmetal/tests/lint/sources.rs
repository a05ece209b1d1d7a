//! Sources of other tests.

use std::path::Path;

use minfer_metal::device::{LibrarySource, SourceFile};
use minfer_softmetal::lint;

#[test]
fn tmp() {
    for f in ["library/idioms.metal", "library/tiles.metal", "broken/kernels/races.metal", "broken/kernels/memory.metal", "broken/kernels/divergence.metal"] {
        let text = std::fs::read_to_string(format!("{}/tests/{f}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let s = LibrarySource::new(SourceFile { name: f, text: &text }, &[]).unwrap();
        for x in lint::check(&s, Path::new("clang-19")).unwrap() { println!("{x}"); }
    }
}
