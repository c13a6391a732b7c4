// SPDX-License-Identifier: Apache-2.0
//! `aurae FILE.ts`, `aurae -`, `aurae -e CODE` and `aurae` alone: which program is meant, and
//! running it. What a program is and how it runs are `language`'s and `script`'s.

pub(super) mod entry;
pub(super) mod execute;
pub(super) mod report;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use clap::CommandFactory;
use script::host::Mode;

use crate::args::{Args, Global, ProgramArgs};
use crate::failure::{Failure, USAGE};
use crate::output::note;
use entry::Source;
use execute::{Job, execute};

/// `aurae FILE ARGS…`, `aurae - ARGS…`, and with `-e` what follows it.
pub(super) async fn run(
    global: &Global,
    options: &ProgramArgs,
    code: Option<String>,
    words: &[OsString],
) -> Result<u8, Failure> {
    let mut args = text(words)?;
    let source = match code {
        Some(code) => Source::Code(code),
        None => {
            let first = args.remove(0);
            source_of(first)?
        }
    };
    execute(global, Job::new(options, source, args, Mode::Run))
        .await
        .map(|done| done.status)
}

/// `aurae -e CODE`; without it a prompt, where somebody sits before it.
pub(super) async fn without_command(
    global: &Global,
    options: &ProgramArgs,
    code: Option<String>,
) -> Result<u8, Failure> {
    if let Some(code) = code {
        let job = Job::new(options, Source::Code(code), Vec::new(), Mode::Run);
        return execute(global, job).await.map(|done| done.status);
    }
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return super::repl::run(global, options).await;
    }
    note(&Args::command().render_help().to_string());
    Ok(USAGE)
}

/// The program that a word names, if it does.
fn source_of(word: String) -> Result<Source, Failure> {
    if word == "-" {
        return Ok(Source::Stdin);
    }
    if word.ends_with(".ts") || word.contains('/') || Path::new(&word).is_file() {
        return Ok(Source::File(word.into()));
    }
    Err(mistyped(&word))
}

fn mistyped(word: &str) -> Failure {
    let command = Args::command();
    let names: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let near = language::schema::nearest(word, names.iter().copied());
    let failure = Failure::usage(format!("there is no command {word:?}, and no such file"));
    match near {
        Some(near) => failure.with_hint(format!("did you mean `aurae {near}`?")),
        None => failure.with_hint("`aurae --help` shows the commands; a program ends in .ts"),
    }
}

fn text(words: &[OsString]) -> Result<Vec<String>, Failure> {
    let words = words.iter().map(|word| {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            let shown = word.to_string_lossy();
            Failure::usage(format!("an argument isn't UTF-8: {shown}"))
        })
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_from_a_command() {
        assert!(matches!(source_of("-".into()), Ok(Source::Stdin)));
        assert!(matches!(source_of("a.ts".into()), Ok(Source::File(_))));
        assert!(matches!(source_of("./deploy".into()), Ok(Source::File(_))));
        let problem = format!("{:?}", source_of("insepct".into()).map(drop));
        assert!(problem.contains("aurae inspect"), "{problem}");
    }
}
