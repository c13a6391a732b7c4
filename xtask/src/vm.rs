// SPDX-License-Identifier: Apache-2.0
//! `./x vm`: a node to try things on.

use std::io::{stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use testkit::disk::Copy;
use testkit::machine::{Console, Machine};
use testkit::node::{Bed, Options};

use crate::build;

/// Where a script lands on the node.
const SCRIPTS: &str = "/usr/local/lib/aurae-testbed/run";
/// Runs a shell on the console, and powers off when it ends. A session of its own gives it job
/// control.
const SHELL: &str = "#!/bin/sh
exec </dev/console >/dev/console 2>&1
echo 'A node of Aurae. Try `aurae ps`; `exit` powers it off; Ctrl-a x cuts its power.'
cd /root && TERM=${TERM:-linux} setsid --ctty --wait /bin/bash -l </dev/ttyS0 >/dev/ttyS0 2>&1
exec aurae node shutdown
";
const SHELL_PATH: &str = "/usr/local/lib/aurae-testbed/shell";
/// Names of systemd's by which the client answers on our node. A link can't be copied onto a disk.
const COMMANDS: [&str; 4] = ["systemctl", "journalctl", "systemd-run", "systemd-analyze"];
/// Units are run there when the user starts one: this target pulls nothing in.
const NO_UNITS: &str = "aurae.units.default=slices.target";
/// A week: the user at the console decides.
const TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Boots a node of the freshly built binaries, on Debian's kernel, under QEMU.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x vm                                     a shell on the node's console
  ./x vm --run story.sh                      run a script there; its exit status is the command's
  ./x vm --run story.sh --copy page.html:/srv/page.html --memory 2048
  ./x vm --disk debian.raw --append init=/usr/sbin/auraed    a Debian's disk, with its units")]
pub(crate) struct Vm {
    /// A script to run on the node, which then powers off
    #[arg(long, value_name = "SCRIPT")]
    run: Option<PathBuf>,
    /// Virtual processors
    #[arg(long, value_name = "N", default_value_t = 2)]
    cpus: u32,
    /// Memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: u32,
    /// A kernel image instead of Debian's cloud kernel
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// A raw ext4 disk instead of the Debian made for the purpose; it isn't changed
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,
    /// A file or folder of this machine, and where the node has it
    #[arg(long, value_name = "SRC:DST", value_parser = copy)]
    copy: Vec<Copy>,
    /// More words for the kernel's command line, e.g. `aurae.KEY=VALUE`
    #[arg(
        long,
        value_name = "ARGS",
        default_value = "",
        allow_hyphen_values = true
    )]
    append: String,
}

fn copy(text: &str) -> Result<Copy, String> {
    match text.rsplit_once(':') {
        Some((from, to)) if !from.is_empty() && to.starts_with('/') => Ok(Copy::new(from, to)),
        _ => Err("expected SRC:DST with an absolute DST, e.g. page.html:/srv/page.html".into()),
    }
}

/// Runs the command.
pub(crate) fn run(vm: &Vm) -> Result<ExitCode> {
    let bed = Bed::new(&build::target()?, &build::binaries(build::Profile::Dev)?)?;
    let mut options = Options {
        cpus: vm.cpus,
        memory_mib: vm.memory,
        kernel: vm.kernel.clone(),
        disk: vm.disk.clone(),
        copies: vm.copy.clone(),
        append: vm.append.clone(),
        units: true,
        ..Options::default()
    };
    // A disk of the user's is there to be booted; ours is there to try things on.
    if vm.disk.is_none() && !vm.append.contains("init=") {
        options.append = format!("{NO_UNITS} {}", vm.append);
        options.copies.extend(commands(&bed)?);
    }
    match &vm.run {
        Some(script) => script_on(&bed, options, script),
        None => shell_on(&bed, options),
    }
}

/// Scripts that execute the client by the names of systemd's commands.
fn commands(bed: &Bed) -> Result<Vec<Copy>> {
    let folder = bed.folder.join("commands");
    std::fs::create_dir_all(&folder)?;
    let script = |name: &&str| {
        let file = folder.join(name);
        let text = format!("#!/bin/bash\nexec -a {name} /usr/local/bin/aurae \"$@\"\n");
        if !std::fs::read_to_string(&file).is_ok_and(|had| had == text) {
            std::fs::write(&file, text)?;
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
        }
        let to = Path::new("/usr/local/bin").join(name);
        Ok(Copy::new(file, to))
    };
    COMMANDS.iter().map(script).collect()
}

fn script_on(bed: &Bed, mut options: Options, script: &Path) -> Result<ExitCode> {
    let name = script.file_name().context("--run wants a file")?;
    let place = Path::new(SCRIPTS).join(name);
    options.copies.push(Copy::new(script, &place));
    let node = bed.boot(&options)?;
    let place = place.display().to_string();
    let mut program = interpreter(&std::fs::read(script)?);
    program.push(place);
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    let running = node.start_program(&words)?;
    let status = running.stream(&mut stdout().lock(), &mut stderr().lock())?;
    if let Err(error) = node.shutdown() {
        eprintln!("x: {error:#}");
    }
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

/// What the first line names, with its one argument, as execve(2) reads it; else sh. A script need
/// not be marked executable. A program that is no script runs itself.
fn interpreter(script: &[u8]) -> Vec<String> {
    if script.starts_with(b"\x7fELF") {
        return Vec::new();
    }
    let sh = || vec!["/bin/sh".to_owned()];
    let Some(rest) = script.strip_prefix(b"#!") else {
        return sh();
    };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    if line.is_empty() {
        return sh();
    }
    let (program, argument) = match line.split_once([' ', '\t']) {
        Some((program, argument)) => (program, Some(argument.trim())),
        None => (line, None),
    };
    let words = std::iter::once(program).chain(argument);
    words.map(str::to_owned).collect()
}

fn shell_on(bed: &Bed, mut options: Options) -> Result<ExitCode> {
    let scratch = tempfile::tempdir()?;
    let shell = scratch.path().join("shell");
    std::fs::write(&shell, SHELL)?;
    std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o755))?;
    options.copies.push(Copy::new(&shell, SHELL_PATH));
    options.run = SHELL_PATH.into();
    let mut machine = Machine::start(&bed.machine(&options, Console::Terminal)?)?;
    match machine.wait(TIMEOUT)? {
        Some(status) if status.success() => Ok(ExitCode::SUCCESS),
        Some(status) => bail!("QEMU ended: {status}"),
        None => bail!("the node ran for a week"),
    }
}

#[cfg(test)]
mod tests {
    use super::interpreter;

    #[test]
    fn a_script_runs_in_what_its_first_line_names() {
        let of = |script: &str| interpreter(script.as_bytes()).join("|");
        assert_eq!(of("#!/usr/bin/env bash\nset -e\n"), "/usr/bin/env|bash");
        assert_eq!(of("#! /bin/bash -eu -x\n"), "/bin/bash|-eu -x");
        assert_eq!(of("#!/bin/bash"), "/bin/bash");
        assert_eq!(of("echo hello\n"), "/bin/sh");
        assert_eq!(of("\x7fELF"), "");
    }
}
