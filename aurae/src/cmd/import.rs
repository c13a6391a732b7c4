// SPDX-License-Identifier: Apache-2.0
//! `aurae import`: another tool's declarations as a program, on standard output. It asks no node.

use std::path::{Path, PathBuf};

use language::import::{Origin, program};
use serde::Deserialize;
use serde_yaml_ng::Value as Yaml;

use super::script::entry::{read_bounded, read_stdin};
use crate::failure::{FINDINGS, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  aurae import compose.yaml > app.ts      then: aurae check app.ts; aurae plan app.ts
  aurae import pod.yaml > pod.ts
  docker compose config | aurae import - > app.ts

A Compose file becomes one pod: its services are containers that find each other by their names. A
manifest of Kubernetes becomes the pods that are in it. What a pod can't have is a comment with the
reason. Files that it names, such as env files, are read by the program: it belongs beside them.";

/// `aurae import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// A Compose file, or a manifest of Kubernetes, as YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints the program.
pub(crate) fn run(args: &ImportArgs) -> Result<u8, Failure> {
    let name = args.file.display();
    let text = match args.file.as_os_str() == "-" {
        true => read_stdin()?,
        false => {
            let failed = |problem| Failure::new(format!("can't read {name}: {problem}"));
            let file = std::fs::File::open(&args.file).map_err(failed)?;
            read_bounded(file, &name.to_string())?
        }
    };
    let documents = serde_yaml_ng::Deserializer::from_str(&text).map(document);
    let documents = documents.collect::<Result<Vec<_>, _>>();
    let documents = documents.map_err(|e| Failure::new(format!("{name}: {e}")))?;
    let origin = origin(&args.file)?;
    let program = program(documents, &origin)
        .map_err(|problem| Failure::new(format!("{name}: {problem}")).with_status(FINDINGS))?;
    print(&program)?;
    Ok(0)
}

/// One document, with what `<<` merges in its place.
fn document(
    from: serde_yaml_ng::Deserializer<'_>,
) -> Result<serde_json::Value, serde_yaml_ng::Error> {
    let mut value = Yaml::deserialize(from)?;
    value.apply_merge()?;
    serde_yaml_ng::from_value(value)
}

/// Relative folders are relative to the file's own.
fn origin(file: &Path) -> Result<Origin, Failure> {
    let here = std::env::current_dir()
        .map_err(|problem| Failure::new(format!("no current folder: {problem}")))?;
    let stdin = file.as_os_str() == "-";
    let folder = match file.parent().filter(|_| !stdin) {
        Some(folder) => here.join(folder),
        None => here,
    };
    let folder = folder.canonicalize().unwrap_or(folder);
    let name = match file.file_name().filter(|_| !stdin) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "standard input".to_owned(),
    };
    Ok(Origin { name, folder })
}
