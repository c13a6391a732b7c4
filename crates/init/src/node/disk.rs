// SPDX-License-Identifier: Apache-2.0
//! The disk's own file systems, before the first daemon: the root is checked while it is read-only
//! and mounted as `/etc/fstab` says, and so is what the state directory lies on. Everything else
//! is mounted later, by units. A disk without an fstab(5) stays as the kernel's command line has
//! mounted it.
//!
//! The programs are the disk's own (fsck(8), mount(8)); they are waited for without a bound: a
//! large file system takes its time, and there is nothing to be done meanwhile. Where a check
//! leaves errors, a person is asked for on the console (sulogin(8)), and the machine starts anew.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernel::machine::{Power, power, sync};
use kernel::mount::{self, Propagation};
use kernel::{fsutil, wait};

use super::console::Console;
use crate::options::Options;
use crate::sulogin;

const FSTAB: &str = "/etc/fstab";
const FSCK: &str = "/sbin/fsck";
const MOUNT: &str = "/bin/mount";
/// fsck(8): the machine should be started anew; errors were left.
const START_ANEW: i32 = 2;
const ERRORS_LEFT: i32 = 4;

/// A line of fstab(5).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    target: PathBuf,
    options: String,
    /// Whether it is checked at boot.
    is_checked: bool,
}

impl Entry {
    fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|it| it == option)
    }
}

/// Reads the lines that have a place; what isn't a line of fstab(5) is left out.
fn parse(text: &str) -> Vec<Entry> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(entry).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.split_ascii_whitespace();
    let (_, target, kind) = (fields.next()?, fields.next()?, fields.next()?);
    let options = fields.next().unwrap_or("defaults").to_owned();
    let pass = fields.nth(1).and_then(|it| it.parse::<u32>().ok());
    let target = unescape(target);
    (target.starts_with('/') && kind != "swap").then(|| Entry {
        target: PathBuf::from(target),
        options,
        is_checked: pass.is_some_and(|it| it > 0),
    })
}

/// getmntent(3): spaces and the like are octal numbers.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, c)| text.replace(code, c))
}

/// What is mounted before the daemon, outermost first: what its state lies on, but for the root.
fn on_the_way(entries: &[Entry], state: &Path) -> Vec<Entry> {
    let is_it = |it: &&Entry| {
        let root = it.target == Path::new("/");
        !root && state.starts_with(&it.target) && !it.has("noauto")
    };
    let mut found: Vec<Entry> = entries.iter().filter(is_it).cloned().collect();
    found.sort_by_key(|it| it.target.components().count());
    found
}

fn table() -> Vec<Entry> {
    parse(&std::fs::read_to_string(FSTAB).unwrap_or_default())
}

/// Whether the disk has something of its own for a place.
pub(super) fn mounts(target: &Path) -> bool {
    table().iter().any(|it| it.target == target)
}

/// See the module. What fails is said, and the boot goes on with what there is.
pub(super) fn open(options: &Options, console: &Console) {
    let entries = table();
    if let Some(root) = entries.iter().find(|it| it.target == Path::new("/")) {
        open_root(root, console);
    }
    for entry in on_the_way(&entries, &options.state_dir) {
        if mount::is_mount_point(&entry.target).unwrap_or(false) {
            continue;
        }
        check(&entry, console);
        run(MOUNT, &[entry.target.as_os_str()], console);
    }
    // What is mounted later is seen by all that have a copy of the node's mounts, as under systemd.
    if let Err(error) = mount::set_propagation(Path::new("/"), Propagation::Shared, true) {
        console.say(&format!(
            "{error}; later mounts are not seen by units that run"
        ));
    }
}

/// Boot loaders say `ro`, so that the root can be checked; its line says whether it stays so.
fn open_root(root: &Entry, console: &Console) {
    let read_only = fsutil::space(&root.target).is_ok_and(|it| it.read_only);
    if !read_only {
        return;
    }
    check(root, console);
    if !root.has("ro") {
        let words = ["-o", "remount,rw", "/"].map(std::ffi::OsStr::new);
        run(MOUNT, &words, console);
    }
}

/// Checks a file system that isn't mounted, or is read-only.
fn check(entry: &Entry, console: &Console) {
    if !entry.is_checked || !Path::new(FSCK).exists() {
        return;
    }
    let shown = entry.target.display();
    let words = ["-a", "-T"].map(std::ffi::OsStr::new);
    let words: Vec<_> = words
        .into_iter()
        .chain([entry.target.as_os_str()])
        .collect();
    // A program of the file system's type that isn't there is said by fsck: 8.
    let status = status_of(FSCK, &words, console);
    match status {
        Some(status) if status & ERRORS_LEFT != 0 => {
            console.say(&format!(
                "fsck has left errors on {shown}: run it by hand; the machine starts anew then"
            ));
            rescue(console);
        }
        Some(status) if status & START_ANEW != 0 => {
            console.say(&format!(
                "fsck has changed {shown}: the machine starts anew"
            ));
            restart(console);
        }
        Some(0 | 1) => console.say(&format!("{shown} is checked")),
        Some(status) => console.say(&format!("fsck of {shown} ended with {status}")),
        None => {}
    }
}

fn run(program: &str, words: &[&std::ffi::OsStr], console: &Console) {
    match status_of(program, words, console) {
        Some(0) | None => {}
        Some(status) => console.say(&format!("{program} ended with {status}")),
    }
}

/// The exit status of a program that has the console; 128 where a signal has ended it.
fn status_of(program: &str, words: &[&std::ffi::OsStr], console: &Console) -> Option<i32> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).current_dir("/");
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    match command.status() {
        Ok(status) => Some(status.code().unwrap_or(128)),
        Err(error) => {
            console.say(&format!("{program}: {error}"));
            None
        }
    }
}

/// A shell for a user that knows root's password, and then the machine starts anew.
fn rescue(console: &Console) -> ! {
    if sulogin::run(console).is_none() {
        // No user can be asked: the machine must not start anew again and again.
        stand_still();
    }
    restart(console)
}

fn restart(console: &Console) -> ! {
    sync();
    if let Err(error) = power(Power::Restart) {
        console.say(&format!("{error}: switch the machine off by hand"));
    }
    stand_still()
}

/// PID 1 must not end.
fn stand_still() -> ! {
    loop {
        let child = wait::wait(wait::Target::Any, wait::Reap::Yes);
        if child.is_err() {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIANS: &str = "# /etc/fstab: static file system information.\n\
        UUID=12-34 / ext4 errors=remount-ro 0 1\n\
        /dev/vdb /var ext4 defaults 0 2\n\
        /dev/vdc /var/lib ext4 noatime,noauto 0 2\n\
        LABEL=x /srv/with\\040space ext4 nofail\n\
        /dev/vdd none swap sw 0 0\n\
        nonsense\n";

    #[test]
    fn lines_are_read_as_mount_reads_them() {
        let entries = parse(DEBIANS);
        let of = |target: &str, options: &str, is_checked| Entry {
            target: target.into(),
            options: options.into(),
            is_checked,
        };
        assert_eq!(
            entries,
            [
                of("/", "errors=remount-ro", true),
                of("/var", "defaults", true),
                of("/var/lib", "noatime,noauto", true),
                of("/srv/with space", "nofail", false),
            ]
        );
        assert!(entries[2].has("noauto") && !entries[2].has("no"));
    }

    #[test]
    fn what_the_state_lies_on_is_mounted_first_and_nothing_else() {
        let entries = parse(
            "/dev/a /var/lib/aurae ext4 defaults 0 2\n/dev/b /var ext4 defaults 0 2\n\
             /dev/c /variety ext4 defaults 0 2\n/dev/d / ext4 defaults 0 1\n\
             /dev/e /var/lib/aurae/images ext4 defaults 0 2\n/dev/f /var/lib ext4 noauto 0 2\n",
        );
        let found = on_the_way(&entries, Path::new("/var/lib/aurae"));
        let targets: Vec<_> = found.iter().map(|it| it.target.to_str().unwrap()).collect();
        assert_eq!(targets, ["/var", "/var/lib/aurae"]);
    }
}
