use super::*;

/// Text and stop index when `text` arrives in pieces of `size` characters.
fn run(stops: &[&str], text: &str, size: usize) -> (String, Option<usize>) {
    let mut matcher = StopStrings::new(stops).matcher();
    let mut answer = String::new();
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(size) {
        let piece: String = piece.iter().collect();
        let step = matcher.push(&piece);
        answer.push_str(step.text);
        if step.stopped.is_some() {
            let stopped = step.stopped;
            assert_eq!(matcher.push("more").text, "");
            assert_eq!(matcher.finish(), "");
            return (answer, stopped);
        }
    }
    answer.push_str(matcher.finish());
    (answer, None)
}

#[test]
fn text_is_cut_exactly_at_the_stop_string_however_it_arrives() {
    for (stops, text, expected, stopped) in [
        (&["END"][..], "the END of it", "the ", Some(0)),
        (&["END"], "EEND", "E", Some(0)),
        (&["aab"], "aaab", "a", Some(0)),
        (&["END"], "the EN", "the EN", None),
        (&["b", "abc"], "xabc", "xa", Some(0)),
        (&["abcd", "bc"], "abcd", "a", Some(1)),
        (&["c", "abc"], "abc", "", Some(1)),
        (&["ababc"], "abababc!", "ab", Some(0)),
        (&["é!", "\n\n"], "é é\n é!", "é é\n ", Some(0)),
        (&["終わり"], "終終わり", "終", Some(0)),
        (&[""], "text", "text", None),
        (&[], "text", "text", None),
        (&["x", "x"], "ax", "a", Some(0)),
    ] {
        for size in 1..=text.chars().count() {
            let found = run(stops, text, size);
            assert_eq!(
                found,
                (expected.to_owned(), stopped),
                "{stops:?} {text:?} by {size}"
            );
        }
    }
}

#[test]
fn only_what_may_become_a_stop_string_is_held_back() {
    let mut matcher = StopStrings::new(["</s>", "\nUser:"]).matcher();
    assert_eq!(matcher.push("Hi <").text, "Hi ");
    assert_eq!(matcher.push("/").text, "");
    assert_eq!(matcher.push("b> \nUs").text, "</b> ");
    assert_eq!(matcher.push("e").text, "");
    assert_eq!(matcher.finish(), "\nUse");
}
