// SPDX-License-Identifier: Apache-2.0
//! `aurae types`: the language's types as files, so that any tool that knows TypeScript knows them.

use std::path::PathBuf;

use language::declare::{TSCONFIG, aurae_d_ts};

use crate::failure::Failure;
use crate::output::print_line;

const EXAMPLES: &str = "\
Examples:
  aurae types .                           aurae.d.ts and tsconfig.json beside your programs";

/// `aurae types`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TypesArgs {
    /// The folder to write into; it must be there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes both files; a `tsconfig.json` that is there already is its owner's.
pub(crate) fn run(args: &TypesArgs) -> Result<u8, Failure> {
    let types = aurae_d_ts().map_err(|problem| Failure::new(problem.to_string()))?;
    let config = args.folder.join("tsconfig.json");
    let kept = config.exists();
    let mut files = vec![(args.folder.join("aurae.d.ts"), types)];
    if !kept {
        files.push((config, TSCONFIG));
    }
    for (file, text) in files {
        std::fs::write(&file, text).map_err(|problem| {
            Failure::new(format!("can't write {}: {problem}", file.display()))
                .with_hint("the folder must be there, and yours")
        })?;
        print_line(&format!("wrote {}", file.display()))?;
    }
    if kept {
        print_line("left tsconfig.json as it is: see that it includes aurae.d.ts")?;
    }
    Ok(0)
}
