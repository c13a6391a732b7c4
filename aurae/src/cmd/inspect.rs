// SPDX-License-Identifier: Apache-2.0
//! `aurae inspect`: the whole status of objects.

use super::{for_each, print_changed};
use crate::failure::Failure;
use crate::output::Format;
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae inspect web/nginx
  aurae inspect -o yaml web
  aurae inspect web/job | jq .executable.exit.code";

/// `aurae inspect`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// How to print it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "json")]
    output: Notation,
    /// Executables or cells
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Notation {
    /// Canonical proto JSON.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Prints one object, or a list of several.
pub(crate) async fn run(session: &Session, args: &InspectArgs) -> Result<u8, Failure> {
    let (found, status) = for_each(session, &args.names, |name| {
        session.find_or_suggest(name, "inspect")
    })
    .await;
    let format = match args.output {
        Notation::Json => Format::Json,
        Notation::Yaml => Format::Yaml,
    };
    if !found.is_empty() {
        print_changed(format, found)?;
    }
    Ok(status)
}
