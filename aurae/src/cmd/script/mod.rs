// SPDX-License-Identifier: Apache-2.0
//! `aurae FILE.ts`, `aurae -`, `aurae -e CODE` and `aurae` alone: finds the program and runs it.
//! `language` compiles programs and `script` executes them.

pub(super) mod data;
pub(super) mod entry;
pub(super) mod execute;
mod items;
pub(super) mod offline;
pub(super) mod report;
mod told;
pub(super) mod values;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use language::schema::Schema;
use script::host::Mode;

use crate::failure::{Failure, USAGE};
use crate::global::{Global, ProgramArgs};
use crate::output::note;
use entry::Source;
use execute::{Job, execute};

/// `aurae FILE ARGS…`, `aurae - ARGS…`, and with `-e` what follows it.
pub(crate) async fn run(
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
            source_of(first)
        }
    };
    execute(global, Job::new(options, source, args, Mode::Run))
        .await
        .map(|done| done.status)
}

/// `aurae -e CODE`; without it a prompt, on a terminal.
pub(crate) async fn without_command(
    global: &Global,
    options: &ProgramArgs,
    code: Option<String>,
    help: impl FnOnce() -> String,
) -> Result<u8, Failure> {
    if let Some(code) = code {
        let job = Job::new(options, Source::Code(code), Vec::new(), Mode::Run);
        return execute(global, job).await.map(|done| done.status);
    }
    if options.values.is_some() {
        return Err(Failure::usage(
            "--values is for a program, and there is none",
        ));
    }
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return super::repl::run(global, options).await;
    }
    note(&help());
    Ok(USAGE)
}

/// Reads the API's descriptors on a thread of its own where a program is likely to be planned or
/// applied: that takes as long as reading the command line, and everything that it begins with
/// needs them. What needs them waits for them; where there is no thread to be had it reads them
/// itself. A program that is run needs a part of them, which its text says (`execute`).
pub(crate) fn read_ahead(words: &[OsString]) {
    if likely(words) {
        let _ = std::thread::Builder::new().spawn(|| Schema::bare().is_ok());
    }
}

/// Whether the words are of a plan or an apply.
fn likely(words: &[OsString]) -> bool {
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    words.any(|word| word == "plan" || word == "apply")
}

/// Whether a word names a program, and not a command that there isn't.
pub(crate) fn is_program(word: &str) -> bool {
    is_path(word) || Path::new(word).is_file()
}

/// Whether a word can be no command's name: it is a program's.
pub(crate) fn is_path(word: &str) -> bool {
    word == "-" || word.ends_with(".ts") || word.contains('/')
}

fn source_of(word: String) -> Source {
    match word.as_str() {
        "-" => Source::Stdin,
        _ => Source::File(word.into()),
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
    fn the_whole_api_is_read_ahead_of_plans_and_applies_alone() {
        let likely = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            super::likely(&words)
        };
        let declaring = ["aurae plan a.ts", "aurae --node n apply b/c.ts"];
        assert!(declaring.into_iter().all(likely));
        let others = ["aurae", "aurae ps", "aurae a.ts", "plan"];
        assert!(!others.into_iter().any(likely));
    }

    #[test]
    fn a_program_is_told_from_a_command() {
        assert!(matches!(source_of("-".into()), Source::Stdin));
        assert!(matches!(source_of("a.ts".into()), Source::File(_)));
        assert!(matches!(source_of("./deploy".into()), Source::File(_)));
        assert!(["-", "a.ts", "./deploy"].into_iter().all(is_program));
        assert!(!is_program("inspect"));
    }
}
