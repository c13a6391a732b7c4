// SPDX-License-Identifier: Apache-2.0
//! The stage before init, where the kernel started PID 1 from an initramfs.
//!
//! An initramfs can't be left by `pivot_root`, which the template of all cells needs. So this stage
//! always ends with another root, and executes init there:
//!
//! * with `root=` on the kernel's command line: modules are loaded, the device is waited for,
//!   mounted, and its `init=` executed (not given: `/sbin/auraed`, then `/sbin/init`);
//! * without: the initramfs moves itself to a tmpfs, and the same program is executed there.
//!
//! There is no udev, no LVM, no encryption and no network root. An error is written to the console
//! with a hint; then a user is asked where that may be ([`rescue`]), or the machine restarts or
//! powers off as `panic=` says.

mod modules;
mod rescue;
mod root;
mod superblock;
mod tree;

use std::convert::Infallible;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::exec::Prepared;
use kernel::machine::{Power, power, sync};
use kernel::mount::{self, Attributes, NewFileSystem, info};
use kernel::signal::{self, SignalSet};
use kernel::{Context, Error, Result};
use rustix::io::Errno;

use crate::again::again;
use crate::node::Console;

/// Where the new root is mounted before it is the root.
const SYSROOT: &str = "/sysroot";
/// How long a line waits for a console that takes none now.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(1);
/// The mounts that are moved to the new root.
const MOUNTS: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// The program of a root, where `init=` names none.
const PROGRAMS: [&str; 2] = ["/sbin/auraed", "/sbin/init"];

/// Whether the root is an initramfs. Needs `/proc`.
pub(crate) fn is_here() -> Result<bool> {
    let mounts = info::read()?;
    let root = mounts
        .iter()
        .rev()
        .find(|mount| mount.target == Path::new("/"));
    Ok(root.is_some_and(|root| root.fs_type == "rootfs" || root.fs_type == "ramfs"))
}

/// The words of the kernel's command line that concern this stage.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    root: Option<String>,
    fs_type: Option<String>,
    flags: String,
    read_only: bool,
    init: Option<String>,
    /// Seconds, as the kernel means it: 0 is never.
    panic: i64,
}

impl Words {
    fn parse(line: &str) -> Words {
        let mut words = Words::default();
        for word in line.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("root", value)) => words.root = Some(value.to_owned()),
                Some(("rootfstype", value)) => words.fs_type = Some(value.to_owned()),
                Some(("rootflags", value)) => value.clone_into(&mut words.flags),
                Some(("init", value)) => words.init = Some(value.to_owned()),
                Some(("panic", value)) => words.panic = value.parse().unwrap_or(0),
                None if word == "ro" => words.read_only = true,
                None if word == "rw" => words.read_only = false,
                _ => {}
            }
        }
        words
    }

    /// What is executed in the root, the first that is there. Without a root this program itself.
    fn programs(&self) -> Result<Vec<PathBuf>> {
        match (&self.root, &self.init) {
            (None, _) => {
                let own = std::fs::read_link("/proc/self/exe");
                let own = own.map_err(|e| Error::from_io("readlink /proc/self/exe", &e))?;
                Ok(vec![own])
            }
            (Some(_), Some(init)) => Ok(vec![PathBuf::from(init)]),
            (Some(_), None) => Ok(PROGRAMS.iter().map(PathBuf::from).collect()),
        }
    }
}

/// Goes on in the real root. Does not come back.
pub(crate) fn pass(mut console: Console) -> ! {
    console.set_timeout(CONSOLE_TIMEOUT);
    let console = &console;
    let line = again(|| std::fs::read_to_string("/proc/cmdline").call("/proc/cmdline"));
    let words = Words::parse(&line.unwrap_or_else(|error| {
        console.say(&format!("{error}: no root= is known"));
        String::new()
    }));
    loop {
        let Err(error) = try_pass(&words, console);
        console.say(&format!("from the initramfs to the root: {error}"));
        if words.root.is_some() {
            hint(console);
        }
        if !rescue::ask(&words, console) {
            give_up(&words, console)
        }
        console.say("the shell has ended; the root is tried again");
    }
}

fn hint(console: &Console) {
    console.say("check root=, rootfstype= and rootflags= on the kernel's command line, and that");
    console.say("every module that the device needs is in /lib/modules/aurae.load");
}

fn try_pass(words: &Words, console: &Console) -> Result<Infallible> {
    let programs = words.programs()?;
    // It is left already where the program of the root was missing.
    if is_here()? {
        modules::load_listed(console);
        leave(words)?;
    }
    execute(&programs)
}

/// Makes the root be the root, and takes the mounts along.
fn leave(words: &Words) -> Result<()> {
    std::fs::create_dir_all(SYSROOT).map_err(|e| Error::from_io("mkdir /sysroot", &e))?;
    match &words.root {
        // By hand.
        Some(_) if mount::is_mount_point(Path::new(SYSROOT))? => {}
        Some(device) => root::mount(device, words, Path::new(SYSROOT))?,
        None => {
            let attributes = Attributes::NONE;
            let tmpfs = NewFileSystem::open("tmpfs")?
                .set("mode", "0755")?
                .set("size", "90%")?;
            mount::attach(tmpfs.mount(attributes)?, Path::new(SYSROOT))?;
            tree::move_to(Path::new(SYSROOT))?;
        }
    }
    for path in MOUNTS {
        move_mount(path)?;
    }
    if words.root.is_some() {
        tree::remove_all();
    }
    mount::leave_initramfs(Path::new(SYSROOT))
}

/// Moves a mount to the new root; where that has no folder for it, it is created, or the mount
/// stays behind.
fn move_mount(path: &str) -> Result<()> {
    let from = Path::new(path);
    if !mount::is_mount_point(from)? {
        return Ok(());
    }
    let to = PathBuf::from(format!("{SYSROOT}{path}"));
    let _ = std::fs::create_dir(&to);
    if to.is_dir() {
        mount::move_to(from, &to)
    } else {
        mount::unmount(from, true)
    }
}

fn execute(programs: &[PathBuf]) -> Result<Infallible> {
    let env: Vec<Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    signal::set_mask(SignalSet::EMPTY)?;
    let mut last = Error::new("execve", Errno::NOENT);
    for program in programs {
        let prepared = Prepared::new(&[program.as_os_str().as_bytes()], &env)?;
        let path = CString::new(program.as_os_str().as_bytes());
        let path = path.map_err(|_| Error::invalid("execve", "NUL in init="))?;
        match prepared.exec(&path) {
            Ok(never) => match never {},
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Restarts after `panic=` seconds (at once where negative); without it, off.
fn give_up(words: &Words, console: &Console) -> ! {
    let how = if words.panic == 0 {
        Power::Off
    } else {
        Power::Restart
    };
    if let Ok(seconds) = u64::try_from(words.panic)
        && seconds > 0
    {
        console.say(&format!("the machine restarts in {seconds} s (panic=)"));
        // The pause that `panic=` asks for, so that a person can read the lines above.
        std::thread::sleep(Duration::from_secs(seconds));
    }
    sync();
    loop {
        if let Err(error) = power(how) {
            console.say(&format!("{error}: switch the machine off by hand"));
        }
        // PID 1 must not end.
        std::thread::sleep(Duration::from_secs(3600));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read_as_the_kernel_does() {
        let line =
            "quiet root=/dev/vda rootfstype=ext4 rootflags=noatime,x=y ro init=/bin/i panic=-1 rw";
        let expected = Words {
            root: Some("/dev/vda".into()),
            fs_type: Some("ext4".into()),
            flags: "noatime,x=y".into(),
            read_only: false,
            init: Some("/bin/i".into()),
            panic: -1,
        };
        assert_eq!(Words::parse(line), expected);
        assert_eq!(Words::parse("quiet"), Words::default());
    }
}
