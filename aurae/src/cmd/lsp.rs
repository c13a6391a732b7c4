// SPDX-License-Identifier: Apache-2.0
//! `aurae lsp`: the editors' server on standard input and output. The work is done by
//! `language::lsp`; it needs no node.

use std::io::{BufReader, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use language::check::Environment;
use language::declare::aurae_d_ts;
use language::lsp::{Setup, serve};

use crate::failure::{FAILED, Failure};

const EXAMPLES: &str = "\
An editor starts it; it speaks the Language Server Protocol over standard input and output.

Examples:
  { \"aurae.path\": \"/usr/bin/aurae\" }                     settings.json of VS Code
  require(\"aurae\").setup({ cmd = { \"aurae\", \"lsp\" } })   init.lua of Neovim";

/// `aurae lsp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LspArgs {
    /// As editors say it; there is no other way
    #[arg(long, hide = true)]
    stdio: bool,
    /// Don't start TypeScript's own language service
    #[arg(long)]
    no_tsc: bool,
}

/// Serves until the editor sends `exit` or closes standard input.
pub(crate) fn run(args: &LspArgs) -> Result<u8, Failure> {
    let types = aurae_d_ts().map_err(|problem| Failure::new(problem.to_string()))?;
    let environment = Arc::new(Environment::new(types));
    let setup = Setup {
        environment,
        cache: cache(),
        typescript: !args.no_tsc,
    };
    let polite = serve(setup, BufReader::new(stdin()), stdout())?;
    Ok(if polite { 0 } else { FAILED })
}

/// Where declarations are written that an editor opens: `aurae/types` in `$XDG_CACHE_HOME`, else in
/// `~/.cache`.
fn cache() -> Option<PathBuf> {
    client::user_folder("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("aurae/types"))
}
