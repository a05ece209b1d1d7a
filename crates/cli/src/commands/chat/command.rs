//! What a user can enter: a message to the model, or a command to the chat.

use std::env;
use std::path::PathBuf;

use super::multiline;

/// One input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Message(String),
    Command(Command),
    Mistake(Mistake),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Clear,
    Regenerate,
    Undo,
    /// Replaces the instructions; none removes them.
    System(Option<String>),
    /// Without a file: the one of `--session`.
    Save(Option<PathBuf>),
    Load(PathBuf),
    Stats,
    Help,
    Exit,
}

/// An input that is neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    #[error(
        "there is no command {given}, the nearest is {nearest}; /help lists them, and /{given} sends the text"
    )]
    Unknown {
        given: String,
        nearest: &'static str,
    },
    #[error("{0} needs a file: {0} FILE")]
    NoFile(&'static str),
    #[error("{command} stands alone, without {extra:?}")]
    Extra {
        command: &'static str,
        extra: String,
    },
    #[error("line {line} of standard input is not UTF-8 text")]
    NotText { line: usize },
}

/// A command as `/help` and completion show it.
pub struct Usage {
    pub name: &'static str,
    pub argument: &'static str,
    pub meaning: &'static str,
}

const fn usage(name: &'static str, argument: &'static str, meaning: &'static str) -> Usage {
    Usage {
        name,
        argument,
        meaning,
    }
}

/// All commands.
pub const COMMANDS: [Usage; 9] = [
    usage("/clear", "", "forget all turns; the instructions stay"),
    usage("/regen", "", "answer the last message anew"),
    usage("/undo", "", "forget the last message and its answer"),
    usage("/system", "[TEXT]", "give other instructions, or none"),
    usage("/save", "[FILE]", "save the conversation"),
    usage("/load", "FILE", "go on with a saved conversation"),
    usage("/stats", "", "show tokens and speed"),
    usage("/help", "", "show this list"),
    usage("/exit", "", "leave; Ctrl-D does too"),
];

/// Reads an input. A block is a message, and text that begins with `//` one that begins with `/`.
pub fn parse(text: &str) -> Entry {
    if let Some(message) = multiline::block(text) {
        return Entry::Message(message.to_owned());
    }
    match text.strip_prefix('/') {
        None => Entry::Message(text.to_owned()),
        Some(message) if message.starts_with('/') => Entry::Message(message.to_owned()),
        Some(_) => parse_command(text).map_or_else(Entry::Mistake, Entry::Command),
    }
}

fn parse_command(text: &str) -> Result<Command, Mistake> {
    let (given, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let argument = argument.trim();
    Ok(match given {
        "/system" => Command::System(some_text(argument).map(str::to_owned)),
        "/save" => Command::Save(some_text(argument).map(path)),
        "/load" => Command::Load(
            some_text(argument)
                .map(path)
                .ok_or(Mistake::NoFile("/load"))?,
        ),
        "/clear" => alone("/clear", argument, Command::Clear)?,
        "/regen" => alone("/regen", argument, Command::Regenerate)?,
        "/undo" => alone("/undo", argument, Command::Undo)?,
        "/stats" => alone("/stats", argument, Command::Stats)?,
        "/help" => alone("/help", argument, Command::Help)?,
        "/exit" => alone("/exit", argument, Command::Exit)?,
        _ => {
            return Err(Mistake::Unknown {
                given: given.to_owned(),
                nearest: nearest(given),
            });
        }
    })
}

fn some_text(argument: &str) -> Option<&str> {
    (!argument.is_empty()).then_some(argument)
}

/// A path, in which `~` is the home folder as in a shell.
fn path(argument: &str) -> PathBuf {
    match argument.strip_prefix("~/").zip(env::home_dir()) {
        Some((below, home)) => home.join(below),
        None => argument.into(),
    }
}

fn alone(name: &'static str, argument: &str, command: Command) -> Result<Command, Mistake> {
    if argument.is_empty() {
        return Ok(command);
    }
    Err(Mistake::Extra {
        command: name,
        extra: argument.to_owned(),
    })
}

/// The command that `given` is the beginning of, else the one with the fewest typing mistakes between them.
fn nearest(given: &str) -> &'static str {
    let distance = |name: &str| match name.starts_with(given) {
        true => 0,
        false => strsim::osa_distance(name, given),
    };
    let names = COMMANDS.iter().map(|usage| usage.name);
    names.min_by_key(|name| distance(name)).unwrap_or("/help")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Command {
        match parse(text) {
            Entry::Command(command) => command,
            other => panic!("{text:?} is {other:?}"),
        }
    }

    fn complaint(text: &str) -> String {
        match parse(text) {
            Entry::Mistake(mistake) => mistake.to_string(),
            other => panic!("{text:?} is {other:?}"),
        }
    }

    #[test]
    fn every_listed_command_is_known() {
        for usage in &COMMANDS {
            let argument = match usage.argument {
                "" => "",
                _ => " x",
            };
            command(&format!("{}{argument}", usage.name));
        }
    }

    #[test]
    fn commands_take_the_rest_of_the_text() {
        assert_eq!(command("/clear"), Command::Clear);
        assert_eq!(command("/regen "), Command::Regenerate);
        assert_eq!(
            command("/system  Be brief.\nBe kind. "),
            Command::System(Some("Be brief.\nBe kind.".into()))
        );
        assert_eq!(command("/system"), Command::System(None));
        assert_eq!(
            command("/save my talk"),
            Command::Save(Some("my talk".into()))
        );
        assert_eq!(command("/save"), Command::Save(None));
        assert_eq!(command("/load a/b"), Command::Load("a/b".into()));
    }

    #[test]
    fn a_missing_or_extra_argument_is_named() {
        assert_eq!(complaint("/load "), "/load needs a file: /load FILE");
        assert_eq!(
            complaint("/undo all"),
            "/undo stands alone, without \"all\""
        );
    }

    #[test]
    fn an_unknown_command_names_the_nearest() {
        for (given, expected) in [
            ("/sytsem", "/system"),
            ("/claer", "/clear"),
            ("/quit", "/exit"),
            ("/r", "/regen"),
            ("/st", "/stats"),
            ("/Undo", "/undo"),
        ] {
            let Entry::Mistake(Mistake::Unknown { nearest, .. }) = parse(given) else {
                panic!("{given} is known");
            };
            assert_eq!(nearest, expected, "{given}");
        }
        assert_eq!(
            complaint("/hlep me"),
            "there is no command /hlep, the nearest is /help; /help lists them, and //hlep sends the text"
        );
    }

    #[test]
    fn a_doubled_slash_sends_one() {
        let message = |text: &str| Entry::Message(text.to_owned());
        assert_eq!(parse("//exit now"), message("/exit now"));
        assert_eq!(parse("///"), message("//"));
        assert_eq!(parse("a /exit"), message("a /exit"));
        assert_eq!(parse(" /exit"), message(" /exit"));
        assert_eq!(parse("\"\"\"/exit\"\"\""), message("/exit"));
    }
}
