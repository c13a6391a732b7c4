// SPDX-License-Identifier: Apache-2.0
//! `aurae completion`: the script by which a shell asks this binary for commands, flags and names.
//! `complete` answers it.

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::failure::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  aurae completion bash > /etc/bash_completion.d/aurae
  aurae completion zsh > ~/.zfunc/_aurae
  aurae completion fish > ~/.config/fish/completions/aurae.fish

Commands, flags, and the names of objects, cells, contexts and users are completed. After an update
of aurae, write the script again.";

/// `aurae completion`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script. It runs `aurae` from the PATH, with the variable set.
pub(crate) fn run(args: &CompletionArgs, variable: &str) -> Result<u8, Failure> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&name) else {
        return Err(Failure::usage(format!("{name} can't be completed in")));
    };
    let mut script = Vec::new();
    shell.write_registration(variable, "aurae", "aurae", "aurae", &mut script)?;
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
