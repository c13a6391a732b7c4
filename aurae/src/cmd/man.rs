// SPDX-License-Identifier: Apache-2.0
//! `aurae man`: the manual pages, one for each command, made from the same text as `--help`.

use std::fs;
use std::path::PathBuf;

use crate::failure::Failure;
use crate::output::print_line;

const EXAMPLES: &str = "\
Examples:
  aurae man /usr/local/share/man/man1";

/// `aurae man`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The folder to write into; made where it isn't there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages of a command and of those below it.
pub(crate) fn run(args: &ManArgs, mut command: clap::Command) -> Result<u8, Failure> {
    fs::create_dir_all(&args.folder).map_err(|problem| {
        Failure::new(format!("can't make {}: {problem}", args.folder.display()))
    })?;
    command.build();
    let count = write(&args.folder, command)?;
    print_line(&format!(
        "wrote {count} pages into {}",
        args.folder.display()
    ))?;
    Ok(0)
}

fn write(folder: &std::path::Path, command: clap::Command) -> Result<usize, Failure> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let file = folder.join(format!("{name}.1"));
    let fail = |problem: std::io::Error| {
        Failure::new(format!("can't write {}: {problem}", file.display()))
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut page)
        .map_err(fail)?;
    fs::write(&file, page).map_err(fail)?;
    let mut count = 1;
    // `help` says of each command what its own page does.
    for subcommand in command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        count += write(folder, subcommand.clone())?;
    }
    Ok(count)
}
