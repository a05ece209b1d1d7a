//! Other spellings of arguments, rewritten before the command line is parsed, which has
//! no names of several letters after one dash and no flags that change the command:
//!
//! | given | read as |
//! |---|---|
//! | `run … --cnv`, `-cnv`, `--conversation` | `chat …` |
//! | `run … -st`, `--single-turn` | `run …` |
//! | `chat … -st` | `chat … --single-turn` |
//! | `-mli` | `--multiline-input` |
//! | `run`, `chat`, `bench`, `info … -ngl` | `--gpu-layers` |
//! | `--color WHEN` | `--color=WHEN` |
//!
//! Nothing after `--` is touched. No flag takes a value that begins with a dash, other than a number, so none of
//! these can be one.

use std::ffi::{OsStr, OsString};

const CONVERSATION: [&str; 3] = ["--cnv", "-cnv", "--conversation"];
const SINGLE_TURN: [&str; 2] = ["-st", "--single-turn"];
const COLOR: &str = "--color";
const COLORS: [&str; 3] = ["auto", "always", "never"];

const GPU_LAYERS: &str = "-ngl";
/// Commands that load a model, or say how it would be loaded.
const LOADING: [&str; 4] = ["run", "chat", "bench", "info"];

/// The arguments as the parser knows them; the first is the program's name.
pub fn canonical(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_command = |argument: &OsString| !argument.as_encoded_bytes().starts_with(b"-");
    let Some(command) = arguments.iter().skip(1).position(is_command) else {
        return arguments;
    };
    let command = command + 1;
    if is_one_of(&arguments[command], &LOADING) {
        let options = arguments
            .iter_mut()
            .take_while(|argument| *argument != "--");
        for argument in options.filter(|argument| *argument == GPU_LAYERS) {
            *argument = "--gpu-layers".into();
        }
    }
    if arguments[command] != "run" && arguments[command] != "chat" {
        return arguments;
    }
    let end = arguments.iter().position(|argument| argument == "--");
    let literal = arguments.split_off(end.unwrap_or(arguments.len()).max(command + 1));
    if arguments
        .iter()
        .any(|argument| is_one_of(argument, &CONVERSATION))
    {
        arguments[command] = "chat".into();
    }
    // It answers once anyway.
    let is_single_turn = arguments[command] == "run";
    arguments.retain(|argument| {
        let is_known = is_single_turn && is_one_of(argument, &SINGLE_TURN);
        !is_known && !is_one_of(argument, &CONVERSATION)
    });
    let mut read = Vec::with_capacity(arguments.len() + literal.len());
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        read.push(if argument == "-st" {
            "--single-turn".into()
        } else if argument == "-mli" {
            "--multiline-input".into()
        } else if argument == COLOR
            && let Some(when) = rest.next_if(|next| is_one_of(next, &COLORS))
        {
            let mut joined = OsString::from(COLOR);
            joined.push("=");
            joined.push(when);
            joined
        } else {
            argument
        });
    }
    read.extend(literal);
    read
}

fn is_one_of(argument: &OsStr, spellings: &[&str]) -> bool {
    spellings.iter().any(|spelling| argument == *spelling)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let read: Vec<String> = canonical(words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        read.join(" ")
    }

    #[test]
    fn a_run_that_asks_for_a_conversation_is_a_chat() {
        for flag in CONVERSATION {
            assert_eq!(
                read(&format!("minfer run m {flag} -n 5")),
                "minfer chat m -n 5"
            );
            assert_eq!(read(&format!("minfer -v run {flag} m")), "minfer -v chat m");
            assert_eq!(read(&format!("minfer chat {flag} m")), "minfer chat m");
            assert_eq!(read(&format!("minfer {flag} run m")), "minfer chat m");
            assert_eq!(read(&format!("minfer {flag} run")), "minfer chat");
        }
    }

    #[test]
    fn names_of_several_letters_are_read_as_long_ones() {
        assert_eq!(
            read("minfer run m -mli --cnv -st"),
            "minfer chat m --multiline-input --single-turn"
        );
        assert_eq!(
            read("minfer chat -mli m -st"),
            "minfer chat --multiline-input m --single-turn"
        );
    }

    #[test]
    fn layers_may_be_asked_for_as_elsewhere() {
        for command in LOADING {
            let line = read(&format!("minfer {command} m -ngl 12 -- -ngl"));
            assert_eq!(line, format!("minfer {command} m --gpu-layers 12 -- -ngl"));
        }
    }

    #[test]
    fn a_run_is_a_single_turn() {
        assert_eq!(read("minfer run m -st hi"), "minfer run m hi");
        assert_eq!(read("minfer run --single-turn m"), "minfer run m");
    }

    #[test]
    fn a_colour_may_follow_its_flag() {
        assert_eq!(
            read("minfer chat --color never m"),
            "minfer chat --color=never m"
        );
        assert_eq!(
            read("minfer chat --color m never"),
            "minfer chat --color m never"
        );
        assert_eq!(read("minfer run m --color"), "minfer run m --color");
    }

    #[test]
    fn other_commands_and_literal_arguments_stay() {
        for line in [
            "minfer",
            "minfer -v",
            "minfer info -st",
            "minfer list -ngl 1",
            "minfer -- run -st",
            "minfer run m -- --cnv -st -mli --color never",
        ] {
            assert_eq!(read(line), line);
        }
    }
}
