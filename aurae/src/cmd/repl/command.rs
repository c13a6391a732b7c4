// SPDX-License-Identifier: Apache-2.0
//! Commands of the prompt, which aren't the language: lines that begin with a dot and a letter.

use std::io::Write;
use std::path::{Path, PathBuf};

use language::limits;
use language::schema::nearest;

/// What `.help` prints.
pub(super) const HELP: &str = "\
.help        this
.load FILE   evaluate a file as if it had been typed
.save FILE   write what was evaluated well into a new file
.type EXPR   the type of an expression, which isn't evaluated
.exit        end; so does Ctrl-D

_ is the last value. Ctrl-C ends an evaluation, Tab completes, an open bracket asks for more lines.";

/// The commands' names, for completion.
pub(super) const NAMES: [&str; 5] = [".exit", ".help", ".load", ".save", ".type"];

/// A line that begins with a dot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Prints the commands.
    Help,
    /// Evaluates a file.
    Load(PathBuf),
    /// Writes what was evaluated.
    Save(PathBuf),
    /// Prints the type of an expression.
    Type(String),
    /// Ends the prompt.
    Exit,
}

impl Command {
    /// The command that a line is, if it is one, or what is wrong with it.
    pub(super) fn of(line: &str) -> Option<Result<Self, String>> {
        let line = line.trim();
        // `.5` is a number.
        let begins = line.strip_prefix('.')?.chars().next()?.is_alphabetic();
        if !begins {
            return None;
        }
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        Some(match (name, rest) {
            (".help", "") => Ok(Self::Help),
            (".exit", "") => Ok(Self::Exit),
            (".load" | ".save", "") => Err(format!("{name} needs a file: `{name} FILE`")),
            (".type", "") => Err(".type needs an expression: `.type EXPR`".to_owned()),
            (".type", expression) => Ok(Self::Type(expression.to_owned())),
            (".load", file) => Ok(Self::Load(PathBuf::from(file))),
            (".save", file) => Ok(Self::Save(PathBuf::from(file))),
            (".help" | ".exit", _) => Err(format!("{name} takes nothing")),
            _ => Err(match nearest(name, NAMES) {
                Some(near) => format!("there is no command {name}; did you mean {near}?"),
                None => format!("there is no command {name}; .help shows those there are"),
            }),
        })
    }
}

/// The command that is meant by a word that other prompts take, as far as no line of this session
/// has used it as a name.
pub(super) fn meant_by(line: &str, evaluated: &[String]) -> Option<Command> {
    let command = match line.trim() {
        "help" => Command::Help,
        "exit" | "quit" => Command::Exit,
        _ => return None,
    };
    let mut words = evaluated
        .iter()
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
    words.all(|word| word != line.trim()).then_some(command)
}

/// Reads a file for `.load`.
pub(super) fn load(file: &Path) -> Result<String, String> {
    let fail =
        |problem: &dyn std::fmt::Display| format!("can't read {}: {problem}", file.display());
    let length = std::fs::metadata(file).map_err(|e| fail(&e))?.len();
    if length > limits::FILE_BYTES as u64 {
        return Err(fail(&format!(
            "{length} bytes are more than a program's file has"
        )));
    }
    std::fs::read_to_string(file).map_err(|e| fail(&e))
}

/// Writes lines into a file that isn't there yet.
pub(super) fn save(file: &Path, lines: &[String]) -> Result<(), String> {
    let write = || {
        let mut to = std::fs::File::create_new(file)?;
        for line in lines {
            writeln!(to, "{}", line.trim_end())?;
        }
        Ok::<_, std::io::Error>(())
    };
    write().map_err(|problem| format!("can't write {}: {problem}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_the_language() {
        assert_eq!(Command::of(" .help "), Some(Ok(Command::Help)));
        assert_eq!(
            Command::of(".load a b.ts"),
            Some(Ok(Command::Load("a b.ts".into())))
        );
        assert_eq!(Command::of(".5 + 1"), None);
        assert_eq!(Command::of("x.help"), None);
        let wrong = Command::of(".hlep").unwrap().unwrap_err();
        assert!(wrong.contains("did you mean .help"), "{wrong}");
        assert!(Command::of(".save").unwrap().is_err());
        let asked = Command::of(".type runtime.List").unwrap();
        assert_eq!(asked, Ok(Command::Type("runtime.List".into())));
        assert!(Command::of(".type").unwrap().is_err());
    }

    #[test]
    fn words_of_other_prompts_are_commands_until_they_are_names() {
        let none = [];
        assert_eq!(meant_by(" help ", &none), Some(Command::Help));
        assert_eq!(meant_by("quit", &none), Some(Command::Exit));
        assert_eq!(meant_by("help()", &none), None);
        let named = ["const help = 1;".to_owned()];
        assert_eq!(meant_by("help", &named), None);
        assert_eq!(meant_by("exit", &named), Some(Command::Exit));
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.ts");
        save(&file, &["const a = 1".into()]).unwrap();
        assert!(save(&file, &[]).is_err());
        assert_eq!(load(&file).unwrap(), "const a = 1\n");
    }
}
