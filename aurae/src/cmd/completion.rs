// SPDX-License-Identifier: Apache-2.0
//! `aurae completion`: what a shell needs to complete our commands and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::failure::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  aurae completion bash > /etc/bash_completion.d/aurae
  aurae completion zsh > ~/.zfunc/_aurae
  aurae completion fish > ~/.config/fish/completions/aurae.fish";

/// `aurae completion`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "aurae", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
