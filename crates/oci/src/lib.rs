// SPDX-License-Identifier: Apache-2.0
//! `auraed oci`: an OCI runtime for everyone else's engines (podman, conmon, containerd's shims).
//!
//! A command line, and nothing that stays: each command does its work and ends. No daemon of Aurae
//! is needed, and none is asked. What conmon and shims wait for is the container's process, which
//! is a child of the command that made it, and theirs when that has ended.
//!
//! It is single-threaded and synchronous, because it clones. Aurae's own cells are built by `init`;
//! what both need is in `kernel`.
//!
//! * [`args`], [`command`]: the command line and what each command does. * [`config`]:
//!   `config.json`. * [`container`]: processes. * [`root`]: mounts. * [`cgroup`]: limits.

mod args;
mod cgroup;
mod command;
mod config;
mod container;
mod error;
mod log;
mod root;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use kernel::exec::{self, Prepared};
use kernel::process;

use crate::args::Arguments;
use crate::error::{Doing, Result};

/// The names under which the binary is this runtime without a word: for engines that take a path
/// and no arguments, and for those that look for one of the other two.
const NAMES: [&str; 3] = ["aurae-oci", "runc", "crun"];

/// The arguments for [`main`], where the process was started for this role: as `auraed oci …`, or
/// one of its names. The first is the program.
pub fn words(all: &[OsString]) -> Option<Vec<OsString>> {
    let program = all.first()?;
    if own_name(program).is_some() {
        return Some(all.to_vec());
    }
    match all.get(1)?.as_bytes() {
        b"oci" => {
            let rest = all.iter().skip(2).cloned();
            Some([program.clone()].into_iter().chain(rest).collect())
        }
        _ => None,
    }
}

/// Which of the names the program was started under.
fn own_name(program: &OsStr) -> Option<&'static str> {
    let name = Path::new(program).file_name()?;
    NAMES.into_iter().find(|known| OsStr::new(known) == name)
}

/// Runs the command. `all` are the arguments as the process got them, `words` those of this role.
pub fn main(all: &[OsString], words: &[OsString]) -> ExitCode {
    let name = words.first().and_then(|program| own_name(program));
    let name = name.unwrap_or("auraed oci");
    let arguments = match Arguments::read(name, words) {
        Ok(arguments) => arguments,
        Err(error) => return answer(&error),
    };
    match run(name, all, arguments) {
        Ok(code) => code,
        Err(error) => {
            log::error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Help, or what is wrong with the command line.
fn answer(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::InvalidSubcommand {
        let word = error.get(ContextKind::InvalidSubcommand);
        let word = word.map(ToString::to_string).unwrap_or_default();
        log::error(&format!(
            "No help topic for '{word}': there is no such command (try --help)"
        ));
        return ExitCode::FAILURE;
    }
    // Help is no failure; there is nowhere left to say that it couldn't be printed.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

fn run(name: &str, all: &[OsString], arguments: Arguments) -> Result<ExitCode> {
    if arguments.command.as_ref().is_some_and(command::clones) {
        be_unwritable(all)?;
        container::user::raise_descriptors()?;
    }
    let preserved = arguments.command.as_ref().map_or(0, command::preserves);
    let activated = container::create::preserved_by_activation();
    process::cloexec_from(3 + preserved.max(activated))?;
    let global = &arguments.global;
    log::open(global.log.as_deref(), global.log_format, global.debug)?;
    command::run(name, arguments)
}

/// A container's process is this program until it becomes its own. With the node's user ids it
/// could write to the file through `/proc/PID/exe` (runc's CVE-2019-5736): so it runs from a
/// read-only mount, or a sealed copy.
fn be_unwritable(all: &[OsString]) -> Result<()> {
    if is_unwritable() {
        return Ok(());
    }
    let copy =
        exec::unwritable(Path::new("/proc/self/exe")).doing("make the program unwritable")?;
    let argv: Vec<&[u8]> = all.iter().map(|word| word.as_bytes()).collect();
    let env: Vec<Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    let prepared = Prepared::new(&argv, &env)?;
    match prepared.exec_fd(std::os::fd::AsFd::as_fd(&copy)) {
        Ok(never) => match never {},
        Err(error) => Err(error).doing("make the program unwritable"),
    }
}

fn is_unwritable() -> bool {
    let own = Path::new("/proc/self/exe");
    let read_only = kernel::fsutil::space(own).is_ok_and(|space| space.read_only);
    let sealed = || {
        std::fs::File::open(own).is_ok_and(|file| kernel::sealed::size(&file, usize::MAX).is_ok())
    };
    read_only || sealed()
}
