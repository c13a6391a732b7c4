// SPDX-License-Identifier: Apache-2.0
//! The file of `--values`: read here, looked into by the evaluator, which holds it against what the
//! program declares.

use std::fs::File;
use std::path::Path;

use script::program::Loaded;
use script::protocol::Values;

use super::entry::{Source, read_bounded, read_stdin};
use crate::failure::Failure;

/// A file of values that the program doesn't ask for would be passed over.
pub(super) fn taken_by(program: &Loaded) -> Result<(), Failure> {
    match program.mentions(&["values(", "values<"]) {
        true => Ok(()),
        false => Err(useless()),
    }
}

/// Why values that nothing reads are refused.
pub(crate) fn useless() -> Failure {
    Failure::usage("--values is for a program that calls values()")
}

/// The file of `--values` beside a program, which may be standard input itself.
pub(super) fn read(file: &Path, source: &Source) -> Result<Values, Failure> {
    if is_stdin(file) && matches!(source, Source::Stdin) {
        return Err(Failure::usage("standard input is the program already"));
    }
    of_file(file)
}

/// The file of `--values`; the evaluator alone looks into it.
pub(crate) fn of_file(file: &Path) -> Result<Values, Failure> {
    if is_stdin(file) {
        let (name, text) = ("<stdin>".to_owned(), read_stdin()?);
        return Ok(as_written(name, text));
    }
    let name = file.display().to_string();
    let open = File::open(file);
    let open = open.map_err(|problem| Failure::new(format!("can't read {name}: {problem}")))?;
    let text = read_bounded(open, &name)?;
    Ok(as_written(name, text))
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn as_written(name: String, text: String) -> Values {
    Values {
        name,
        text,
        expected: None,
    }
}
