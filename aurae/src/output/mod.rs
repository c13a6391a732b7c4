// SPDX-License-Identifier: Apache-2.0
//! Output: tables for people, canonical proto JSON and YAML for programs. Nothing here calls the
//! node.

mod held;
mod message;
mod objects;
mod progress;
mod style;
mod table;

use std::io::{self, Write};

pub(crate) use held::{hold, release};
pub(crate) use message::{Named, to_json, to_value, to_yaml};
pub(crate) use objects::{command_line, exit_words, meta, path, reference, state_cell, tree};
pub(crate) use progress::{Progress, Steps, Told, clear};
pub(crate) use style::{Color, ColorChoice, Style, printable};
pub(crate) use table::{Cell, Table};

use crate::failure::Failure;

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// Canonical proto JSON.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names alone, one a line.
    Name,
}

/// `-o`, for every command that prints a result.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct OutputArgs {
    /// How to print the result
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Format,
}

impl Format {
    /// Whether it is for programs: the whole message, and nothing else on standard output.
    pub(crate) fn is_machine(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// Prints text as it is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    if held::keep(text.as_bytes())? {
        return Ok(());
    }
    clear();
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints bytes of which many pieces come: a flush is the caller's.
pub(crate) fn print_piece(bytes: &[u8]) -> io::Result<()> {
    match held::keep(bytes)? {
        true => Ok(()),
        false => io::stdout().lock().write_all(bytes),
    }
}

/// Prints a line to standard output.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Prints a whole message for programs.
pub(crate) fn print_message<M: Named>(format: Format, message: &M) -> Result<(), Failure> {
    match format {
        Format::Yaml => print(&to_yaml(message)?),
        _ => print_line(&to_json(message)?),
    }
}

/// Says something to people beside the result; never fails, since the result counts.
pub(crate) fn note(text: &str) {
    clear();
    let _ = writeln!(io::stderr(), "{text}");
}
