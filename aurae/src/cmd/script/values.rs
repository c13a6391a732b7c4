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
        false => Err(Failure::usage(
            "--values is for a program that calls values()",
        )),
    }
}

/// The file of `--values`; the evaluator alone looks into it.
pub(super) fn read(file: &Path, source: &Source) -> Result<Values, Failure> {
    if file == Path::new("-") {
        if matches!(source, Source::Stdin) {
            return Err(Failure::usage("standard input is the program already"));
        }
        let (name, text) = ("<stdin>".to_owned(), read_stdin()?);
        return Ok(as_written(name, text));
    }
    let name = file.display().to_string();
    let open = File::open(file);
    let open = open.map_err(|problem| Failure::new(format!("can't read {name}: {problem}")))?;
    let text = read_bounded(open, &name)?;
    Ok(as_written(name, text))
}

fn as_written(name: String, text: String) -> Values {
    Values {
        name,
        text,
        expected: None,
    }
}
