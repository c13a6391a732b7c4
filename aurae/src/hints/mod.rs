// SPDX-License-Identifier: Apache-2.0
//! Hints for wrong usage: commands and flags of podman, docker, kubectl and systemctl, and what to
//! type instead. The tables are in `commands` and `flags`. A suggestion is a word that differs by a
//! slip of typing, or that means the same; never one that only looks alike.

mod commands;
mod flags;

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Args;
use crate::cmd::script;
use crate::failure::{Failure, USAGE};
use crate::habits;
use crate::output::{Color, ColorChoice, Style, note};

/// Says what is wrong with the command line, and ends. Help and version are no errors.
pub(crate) fn exit(mut problem: clap::Error, words: &[OsString]) -> ! {
    let hint = hint(&problem, words);
    if hint.is_none() && problem.kind() != ErrorKind::UnknownArgument {
        problem.exit();
    }
    problem.remove(ContextKind::SuggestedArg);
    problem.remove(ContextKind::Suggested);
    // clap's own shows the flag that it takes for the meant one.
    let usage = ContextValue::StyledStr(chosen(words).render_usage());
    problem.insert(ContextKind::Usage, usage);
    let text = problem.render();
    match std::io::stderr().is_terminal() {
        true => eprint!("{}", text.ansi()),
        false => eprint!("{text}"),
    }
    if let Some(hint) = hint {
        let style = Style::of(&std::io::stderr(), ColorChoice::default());
        note(&format!("{} {hint}", style.paint(Color::Cyan, "hint:")));
    }
    std::process::exit(USAGE.into())
}

/// Refuses a word that is neither a command nor a program.
pub(crate) fn refuse_unknown_command(words: &[OsString]) -> Result<(), Failure> {
    let Some(word) = words.first().and_then(|word| word.to_str()) else {
        return Ok(());
    };
    if script::is_program(word) {
        return Ok(());
    }
    let command = Args::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    let hint = match (commands::meant_by(word), near(word, names)) {
        (Some(hint), _) => hint.to_owned(),
        (None, Some(near)) => format!("did you mean `aurae {near}`?"),
        (None, None) => "`aurae --help` shows the commands; a program ends in .ts".to_owned(),
    };
    let problem = format!("there is no command {word:?}, and no such file");
    Err(Failure::usage(problem).with_hint(hint))
}

/// The one that was nearly typed.
pub(crate) fn near<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    language::schema::nearest(word, names)
}

fn hint(problem: &clap::Error, words: &[OsString]) -> Option<String> {
    if problem.kind() == ErrorKind::InvalidSubcommand {
        let Some(ContextValue::String(wrong)) = problem.get(ContextKind::InvalidSubcommand) else {
            return None;
        };
        return commands::meant_in(chosen(words).get_name(), wrong).map(str::to_owned);
    }
    let Some(ContextValue::String(wrong)) = problem.get(ContextKind::InvalidArg) else {
        return None;
    };
    let chosen = chosen(words);
    let name = chosen.get_name();
    if problem.kind() == ErrorKind::ValueValidation {
        return flags::meant_by(name, wrong).map(str::to_owned);
    }
    if problem.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    if !wrong.starts_with('-') {
        return None;
    }
    let flag = wrong
        .split_once('=')
        .map_or(wrong.as_str(), |(flag, _)| flag);
    if let Some(hint) = flags::meant_by(name, flag) {
        return Some(hint.to_owned());
    }
    let longs: Vec<&str> = chosen
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    let near = near(flag.strip_prefix("--")?, longs.into_iter())?;
    Some(format!("did you mean `--{near}`?"))
}

/// The command that was typed, as deep as it is known.
fn chosen(words: &[OsString]) -> clap::Command {
    let mut chosen = Args::command();
    chosen.build();
    let Some(first) = habits::command(words) else {
        return chosen;
    };
    for word in words.iter().skip(first) {
        match word.to_str().and_then(|word| chosen.find_subcommand(word)) {
            Some(next) => chosen = next.clone(),
            None => break,
        }
    }
    chosen
}
