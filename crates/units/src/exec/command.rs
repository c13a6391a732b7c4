// SPDX-License-Identifier: Apache-2.0
//! Command lines of `ExecStart=` and its like (systemd.service(5), "Command lines").

use crate::finding::shown;
use crate::specifier::{Context, expand};
use crate::syntax::words::{Escapes, next, quote};

/// Which of the unit's restrictions a command has (systemd.service(5), table 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Privileges {
    /// All of them.
    #[default]
    Restricted,
    /// `+`: none; no other user, no sandbox.
    Full,
    /// `!`: all but the change of user, group and capabilities.
    KeepUser,
    /// `!!`: as `!` where the kernel has no ambient capabilities, else as without. Every kernel
    /// that we run on has them.
    AmbientFallback,
}

/// One command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// An absolute path, or a name that is looked up in the search path.
    pub program: String,
    /// `@`: what the program is told that it is called.
    pub argv0: Option<String>,
    /// What follows; variables are not put in yet.
    pub arguments: Vec<String>,
    /// `-`: a failure is on record and no failure.
    pub ignores_failure: bool,
    /// `:`: variables stay as they are written.
    pub keeps_variables: bool,
    /// `+`, `!`, `!!`.
    pub privileges: Privileges,
}

/// Why a line is none. Systemd ignores the line where it begins with `-`, and fails the unit
/// otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadCommand {
    /// What is wrong.
    pub message: String,
    /// Where, in bytes.
    pub offset: usize,
    /// Whether the line begins with `-`.
    pub ignored: bool,
}

/// What is read of one line: its commands, and warnings with their offset.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// In order.
    pub commands: Vec<Command>,
    /// What is strange and taken as it is.
    pub warnings: Vec<(usize, String)>,
}

/// The longest line has so many commands.
const MOST_COMMANDS: usize = 1000;

/// Parses a line: one command, or several with a `;` as a word of its own between them.
///
/// # Errors
/// It has no program, a wrong one, a quote without end, or a specifier that stands for nothing.
pub fn parse(line: &str, context: Context<'_>) -> Result<Commands, BadCommand> {
    let mut read = Commands::default();
    let mut at = 0;
    loop {
        let Some(command) = one(line, &mut at, context, &mut read.warnings)? else {
            return Ok(read);
        };
        read.commands.push(command);
        if read.commands.len() > MOST_COMMANDS {
            let message = format!("has more than {MOST_COMMANDS} commands");
            return Err(BadCommand {
                message,
                offset: at,
                ignored: false,
            });
        }
    }
}

fn one(
    line: &str,
    at: &mut usize,
    context: Context<'_>,
    warnings: &mut Vec<(usize, String)>,
) -> Result<Option<Command>, BadCommand> {
    let mut command = Command {
        program: String::new(),
        argv0: None,
        arguments: Vec::new(),
        ignores_failure: false,
        keeps_variables: false,
        privileges: Privileges::Restricted,
    };
    let bad = |message: String, offset: usize, ignored: bool| BadCommand {
        message,
        offset,
        ignored,
    };
    let unbalanced = || "a quote or an escape has no end".to_owned();
    let first = next(line, at, Escapes::Decode);
    let Some(first) = first.map_err(|e| bad(unbalanced(), e.offset, false))? else {
        return Ok(None);
    };
    let (rest, has_argv0) = prefixes(&first.text, &mut command);
    let ignored = command.ignores_failure;
    let fail = |message: String| bad(message, first.offset, ignored);
    command.program = expand(rest, context).map_err(fail)?;
    check_program(&command.program).map_err(fail)?;
    let mut has_argv0 = has_argv0;
    loop {
        if separator(line, at) {
            break;
        }
        let word = next(line, at, Escapes::Decode);
        let Some(word) = word.map_err(|e| bad(unbalanced(), e.offset, ignored))? else {
            break;
        };
        if word.strange {
            let message = format!(
                "{} has an escape that isn't one; it is kept",
                shown(&word.raw)
            );
            warnings.push((word.offset, message));
        }
        let text = if word.raw == "\\;" {
            ";".to_owned()
        } else {
            word.text
        };
        let text = expand(&text, context).map_err(|m| bad(m, word.offset, ignored))?;
        if has_argv0 {
            command.argv0 = Some(text);
            has_argv0 = false;
        } else {
            command.arguments.push(text);
        }
    }
    if has_argv0 {
        return Err(fail(
            "`@` asks for a second word, the name that the program is told".to_owned(),
        ));
    }
    Ok(Some(command))
}

/// Whether the next word is a lone `;`, which is taken.
fn separator(line: &str, at: &mut usize) -> bool {
    let rest = line.get(*at..).unwrap_or("");
    let word = rest.trim_start_matches([' ', '\t', '\n', '\r']);
    let Some(after) = word.strip_prefix(';') else {
        return false;
    };
    let alone = after.is_empty() || after.starts_with([' ', '\t', '\n', '\r']);
    if alone {
        *at = line.len() - after.len();
    }
    alone
}

/// Takes the marks before a program. Each counts once; of `+`, `!` and `!!` there is one.
fn prefixes<'a>(word: &'a str, command: &mut Command) -> (&'a str, bool) {
    let mut rest = word;
    let mut has_argv0 = false;
    loop {
        let restricted = command.privileges == Privileges::Restricted;
        rest = match rest.chars().next() {
            Some('-') if !command.ignores_failure => {
                command.ignores_failure = true;
                rest.get(1..).unwrap_or("")
            }
            Some('@') if !has_argv0 => {
                has_argv0 = true;
                rest.get(1..).unwrap_or("")
            }
            Some(':') if !command.keeps_variables => {
                command.keeps_variables = true;
                rest.get(1..).unwrap_or("")
            }
            Some('+') if restricted => {
                command.privileges = Privileges::Full;
                rest.get(1..).unwrap_or("")
            }
            Some('!') if restricted => {
                command.privileges = Privileges::KeepUser;
                rest.get(1..).unwrap_or("")
            }
            Some('!') if command.privileges == Privileges::KeepUser => {
                command.privileges = Privileges::AmbientFallback;
                rest.get(1..).unwrap_or("")
            }
            _ => return (rest, has_argv0),
        };
    }
}

fn check_program(program: &str) -> Result<(), String> {
    let wrong = |problem: &str| Err(format!("{} {problem}", shown(program)));
    if program.is_empty() {
        return Err("names no program".to_owned());
    }
    if program.contains(char::is_control) {
        return wrong("has control characters");
    }
    if program.ends_with('/') {
        return wrong("is a folder, not a program");
    }
    if !program.starts_with('/') && (program.contains('/') || matches!(program, "." | "..")) {
        return wrong("is neither an absolute path nor a plain name");
    }
    Ok(())
}

impl std::fmt::Display for Command {
    /// As it could stand in a file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let marks = [
            (self.ignores_failure, "-"),
            (self.argv0.is_some(), "@"),
            (self.keeps_variables, ":"),
        ];
        let mut first: String = marks
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, mark)| *mark)
            .collect();
        first.push_str(match self.privileges {
            Privileges::Restricted => "",
            Privileges::Full => "+",
            Privileges::KeepUser => "!",
            Privileges::AmbientFallback => "!!",
        });
        let percent = |text: &str| text.replace('%', "%%");
        first.push_str(&percent(&self.program));
        f.write_str(&quote(&first))?;
        for word in self.argv0.iter().chain(&self.arguments) {
            let text = percent(word);
            let text = if text == ";" {
                "\\;".to_owned()
            } else {
                quote(&text)
            };
            write!(f, " {text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::UnitName;
    use crate::specifier::NoHost;
    use proptest::prelude::*;

    fn read(line: &str) -> Result<Commands, BadCommand> {
        let name = UnitName::parse("a@b.service").unwrap();
        parse(
            line,
            Context {
                name: &name,
                fragment: None,
                host: &NoHost,
            },
        )
    }

    fn argv(command: &Command) -> Vec<&str> {
        let arguments = command.arguments.iter().map(String::as_str);
        std::iter::once(&*command.program)
            .chain(arguments)
            .collect()
    }

    #[test]
    fn the_manuals_lines_are_read_as_it_says() {
        // systemd.service(5), "Command lines".
        for (line, expected) in [
            (
                "echo one ; echo \"two two\"",
                vec![vec!["echo", "one"], vec!["echo", "two two"]],
            ),
            (
                "echo / >/dev/null & \\; ls",
                vec![vec!["echo", "/", ">/dev/null", "&", ";", "ls"]],
            ),
            (
                "sh -c 'dmesg | tail'",
                vec![vec!["sh", "-c", "dmesg | tail"]],
            ),
            (
                "/bin/echo $ONE ${TWO}",
                vec![vec!["/bin/echo", "$ONE", "${TWO}"]],
            ),
            (
                "/bin/x --name=%i 100%%",
                vec![vec!["/bin/x", "--name=b", "100%"]],
            ),
            ("/bin/x ';' a", vec![vec!["/bin/x", ";", "a"]]),
            ("/bin/x a;b", vec![vec!["/bin/x", "a;b"]]),
            ("", vec![]),
        ] {
            let read = read(line).unwrap();
            let words: Vec<_> = read.commands.iter().map(argv).collect();
            assert_eq!(words, expected, "{line}");
        }
    }

    #[test]
    fn marks_before_the_program_come_in_any_order() {
        // systemd.service(5), table 1.
        let one = |line: &str| read(line).unwrap().commands.remove(0);
        let all = one("-@:+/bin/a name arg");
        assert!(all.ignores_failure && all.keeps_variables);
        assert_eq!(all.privileges, Privileges::Full);
        assert_eq!(
            (all.argv0.as_deref(), argv(&all)),
            (Some("name"), vec!["/bin/a", "arg"])
        );
        assert_eq!(one("!/bin/a").privileges, Privileges::KeepUser);
        assert_eq!(one("!!-/bin/a").privileges, Privileges::AmbientFallback);
        assert!(one("\"-/bin/a b\"").program == "/bin/a b");
    }

    #[test]
    fn what_can_not_be_run_is_told() {
        for (line, problem, ignored) in [
            ("bin/x", "neither", false),
            ("-bin/x", "neither", true),
            ("/bin/", "folder", false),
            ("-", "no program", true),
            ("/bin/x 'a", "no end", false),
            ("@/bin/x", "second word", false),
            ("/bin/x ; ./y", "neither", false),
            ("/bin/x %y", "stands for nothing", false),
        ] {
            let bad = read(line).unwrap_err();
            assert!(bad.message.contains(problem), "{line}: {bad:?}");
            assert_eq!(bad.ignored, ignored, "{line}");
        }
        assert_eq!(read("/bin/x \\q").unwrap().warnings.len(), 1);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            words in proptest::collection::vec("[^\\x00]{0,12}", 0..5),
            ignores_failure: bool, keeps_variables: bool, named: bool,
        ) {
            let command = Command {
                program: "/bin/a b".to_owned(),
                argv0: named.then(|| "x".to_owned()),
                arguments: words,
                ignores_failure,
                keeps_variables,
                privileges: Privileges::KeepUser,
            };
            let read = read(&command.to_string()).unwrap();
            prop_assert_eq!(read.commands, vec![command]);
        }

        #[test]
        fn no_line_does_harm(line: String) {
            let _ = read(&line);
        }
    }
}
