// SPDX-License-Identifier: Apache-2.0
//! `aurae fmt`: programs in the one style.

use std::path::{Path, PathBuf};

use language::format::format;
use language::source::Source;

use super::script::entry::{read_bounded, read_stdin};
use super::script::report;
use crate::failure::{FAILED, Failure};
use crate::global::Global;
use crate::output::{Style, note, print, print_line};

const EXAMPLES: &str = "\
Examples:
  aurae fmt deploy.ts apps/*.ts
  aurae fmt --check apps/*.ts             change nothing; status 1 where something would change
  aurae fmt - < deploy.ts                 to standard output";

/// `aurae fmt`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FmtArgs {
    /// Change nothing; name the files that would change
    #[arg(long)]
    check: bool,
    /// Programs; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Formats each file. One that can't be formatted is reported, and the others are formatted.
pub(crate) fn run(global: &Global, args: &FmtArgs) -> Result<u8, Failure> {
    let style = Style::of(&std::io::stderr(), global.color);
    let mut status = 0;
    for file in &args.files {
        let fine = match file == Path::new("-") {
            true => from_stdin(args.check, style)?,
            false => of_file(file, args.check, style)?,
        };
        if !fine {
            status = FAILED;
        }
    }
    Ok(status)
}

fn from_stdin(check: bool, style: Style) -> Result<bool, Failure> {
    let text = read_stdin()?;
    let Some(formatted) = formatted("<stdin>", &text, style) else {
        return Ok(false);
    };
    if check {
        return Ok(formatted == text);
    }
    print(&formatted)?;
    Ok(true)
}

fn of_file(file: &Path, check: bool, style: Style) -> Result<bool, Failure> {
    let shown = file.display();
    let fail = |what: &str, problem: std::io::Error| {
        Failure::new(format!("can't {what} {shown}: {problem}"))
    };
    let opened = std::fs::File::open(file).map_err(|problem| fail("read", problem))?;
    let text = read_bounded(opened, &shown.to_string())?;
    let Some(formatted) = formatted(&shown.to_string(), &text, style) else {
        return Ok(false);
    };
    if formatted == text {
        return Ok(true);
    }
    if check {
        print_line(&shown.to_string())?;
        return Ok(false);
    }
    replace(file, &formatted).map_err(|problem| fail("write", problem))?;
    note(&format!("formatted {shown}"));
    Ok(true)
}

fn formatted(name: &str, text: &str, style: Style) -> Option<String> {
    match format(&Source::new(name, text)) {
        Ok(formatted) => Some(formatted),
        Err(findings) => {
            report::findings(&findings, style);
            None
        }
    }
}

/// Replaces a file whole or not at all: a new file is renamed over it. Of a link, the target is
/// replaced.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let file = file.canonicalize()?;
    let mode = std::fs::metadata(&file)?.permissions();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::write(&beside, text)
        .and_then(|()| std::fs::set_permissions(&beside, mode))
        .and_then(|()| std::fs::rename(&beside, &file));
    if written.is_err() {
        // The rest of the file is of no use; the first error counts.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
