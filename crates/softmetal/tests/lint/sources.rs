//! Sources of other tests, which the software device runs.

use std::path::Path;

use minfer_metal::device::{LibrarySource, SourceFile};
use minfer_softmetal::lint;

fn findings(text: &str) -> Vec<String> {
    let file = SourceFile {
        name: "test.metal",
        text,
    };
    let source = LibrarySource::new(file, &[]).unwrap();
    let found = lint::check(&source, Path::new("clang-19")).unwrap();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn kernels_of_other_tests_have_no_findings() {
    for text in [
        include_str!("../library/tiles.metal"),
        include_str!("../broken/kernels/races.metal"),
        include_str!("../broken/kernels/memory.metal"),
        include_str!("../broken/kernels/divergence.metal"),
    ] {
        assert_eq!(findings(text), [""; 0]);
    }
}

/// The one idiom that is refused is a function as an argument of a template.
#[test]
fn public_idioms_pass_with_a_functor_for_a_function_pointer() {
    let text = include_str!("../library/idioms.metal");
    let pointer = "void (*dequant)(device const block_q4 *, short, thread half4x4 &)";
    let found = findings(text);
    let refused = "test.metal:34:36: function-pointer: ";
    assert!(
        found.iter().any(|found| found.starts_with(refused)),
        "{found:#?}"
    );
    let functor = "struct Dequantize { template <typename M> static void apply(device const block_q4 * xb, short il, \
                   thread M & reg) { dequantize(xb, il, reg); } };\n";
    let text = text
        .replace(pointer, "typename Dequant")
        .replace("dequant(x", "Dequant::apply(x")
        .replace(", dequantize>", ", Dequantize>")
        .replace(
            "static inline float helper",
            &format!("{functor}static inline float helper"),
        );
    assert_eq!(findings(&text), [""; 0]);
}
