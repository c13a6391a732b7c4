// SPDX-License-Identifier: Apache-2.0
//! Sets up the machine's identity: host name, machine id, random seed, clock and its zone,
//! loopback.
//!
//! Each is tried, and none stops the boot: an error is written to the console.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use kernel::fsutil;
use kernel::machine;
use kernel::mount::{self, Attributes, Change};
use kernel::{Context, Result, namespace, netlink, process, time};

use rustix::io::Errno;

use super::console::Console;
use crate::again::again;
use crate::options::Options;
use crate::protocol::Role;

/// The inode of the first pid namespace, fixed by the kernel (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// The file in the state directory, and how many bytes of it.
const SEED: &str = "random-seed";
const SEED_BYTES: usize = 512;
/// The earliest time that a clock can rightly show, where the build has no time of its own:
/// 2026-11-01T00:00:00Z, in seconds since 1970.
const WRITTEN: u64 = 1_793_491_200;

/// PID 1 of the first pid namespace is a machine's; of another, a container's.
pub(crate) fn find_role() -> Result<Role> {
    if process::id() != 1 {
        return Ok(Role::Service);
    }
    let path = Path::new("/proc/self/ns/pid");
    if !path.exists() {
        super::boot::mount_proc()?;
    }
    let (_, inode) = namespace::identity(namespace::open(path)?)?;
    Ok(if inode == FIRST_PID_NAMESPACE {
        Role::Machine
    } else {
        Role::Container
    })
}

/// Everything above, as PID 1 of a machine.
pub(super) fn set_up(options: &Options, console: &Console) {
    let state = &options.state_dir;
    let steps: [(&str, &dyn Fn() -> Result<()>); 7] = [
        ("the clock's zone", &|| set_zone(console)),
        ("the clock", &|| set_clock(state)),
        ("the loopback", &netlink::bring_loopback_up),
        ("the host's name", &set_hostname),
        ("the seed of randomness", &|| load_seed(state)),
        ("the machine's id", &ensure_machine_id),
        ("ctrl-alt-del", &machine::catch_ctrl_alt_del),
    ];
    for (what, step) in steps {
        if let Err(error) = again(step) {
            console.say(&format!("{what}: {error}"));
        }
    }
}

/// A file's text; `None` where there is no such file.
fn read_if_there(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path).call_on("read", path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn set_hostname() -> Result<()> {
    let text = read_if_there(Path::new("/etc/hostname"))?.unwrap_or_default();
    let name = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    name.map_or(Ok(()), machine::set_hostname)
}

/// `/etc/machine-id`, made where it isn't there; on a read-only root in `/run`, for this boot.
fn ensure_machine_id() -> Result<()> {
    // One that can't be read now is not one that isn't there: it would be replaced.
    let there = read_if_there(Path::new("/etc/machine-id"))?;
    if there.is_some_and(|text| text.trim().len() == 32) {
        return Ok(());
    }
    let mut id = [0; 16];
    machine::random(&mut id)?;
    let text: String = id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        + "\n";
    let place = |folder: &str| {
        let folder = fsutil::open_directory(Path::new(folder))?;
        fsutil::replace_file(folder, "machine-id".as_ref(), text.as_bytes(), 0o444)
    };
    match place("/etc") {
        Err(error) if error.is(Errno::ROFS.raw_os_error()) => {
            place("/run")?;
            show_for_this_boot(Path::new("/run/machine-id"), Path::new("/etc/machine-id"))
        }
        result => result,
    }
}

/// Programs read a file that can't be made: another one is mounted there, where there is a file to
/// mount it on, as in every image (machine-id(5)).
fn show_for_this_boot(file: &Path, at: &Path) -> Result<()> {
    if !at.exists() {
        return Err(kernel::Error::new("mount", Errno::ROFS).about(format!(
            "{} isn't there: the root is read-only",
            at.display()
        )));
    }
    let copy = mount::copy_tree(file, false)?;
    let change = Change {
        set: Attributes::READ_ONLY,
        ..Change::default()
    };
    mount::set_attributes(&copy, &change)?;
    mount::attach(copy, at)
}

/// Mixes in what the last boot left, once, and leaves something else for the next.
fn load_seed(state_dir: &Path) -> Result<()> {
    let path = state_dir.join(SEED);
    let old = match std::fs::read(&path).call_on("read", &path) {
        Ok(old) => old,
        Err(error) if error.is_not_found() => return save_seed(state_dir),
        Err(error) => return Err(error),
    };
    // It is gone before it counts: the same bytes must never be credited twice.
    let gone = std::fs::remove_file(&path).is_ok()
        && fsutil::open_directory(state_dir).is_ok_and(|dir| rustix::fs::fsync(dir).is_ok());
    let old = old.get(..SEED_BYTES.min(old.len())).unwrap_or_default();
    machine::seed_random(old, gone && old.len() == SEED_BYTES)?;
    save_seed(state_dir)
}

/// Leaves a seed for the next boot, where there is randomness to be left.
pub(super) fn save_seed(state_dir: &Path) -> Result<()> {
    if !machine::is_random_ready()? {
        return Ok(());
    }
    let mut seed = [0; SEED_BYTES];
    machine::random(&mut seed)?;
    let folder = fsutil::open_directory(state_dir)?;
    fsutil::replace_file(folder, SEED.as_ref(), &seed, 0o600)
}

/// hwclock(8): the third line of `/etc/adjtime` says whether the machine's own clock shows local
/// time.
fn shows_local_time(adjtime: &str) -> bool {
    adjtime
        .lines()
        .nth(2)
        .is_some_and(|it| it.trim() == "LOCAL")
}

/// A clock that shows local time is made UTC's, once, and the kernel, which writes that clock anew,
/// knows the zone. Any other is left as it is, and no later call changes that: what the kernel has
/// of local time is UTC, as there is no right zone across a change to summer time.
fn set_zone(console: &Console) -> Result<()> {
    let adjtime = read_if_there(Path::new("/etc/adjtime"))?.unwrap_or_default();
    if !shows_local_time(&adjtime) {
        return time::set_kernel_zone(0);
    }
    let seconds = time::realtime_ns() / 1_000_000_000;
    let ahead = time::minutes_ahead_of_utc(i64::try_from(seconds).unwrap_or(i64::MAX))?;
    time::set_kernel_zone(ahead)?;
    console.say(&format!(
        "the machine's clock shows local time, {ahead} minutes ahead of UTC"
    ));
    Ok(())
}

/// Not before this program was built, nor before the newest of its state was written.
fn set_clock(state_dir: &Path) -> Result<()> {
    let written = Duration::from_secs(WRITTEN);
    let of = |path: &Path| -> Option<Duration> {
        std::fs::metadata(path)
            .ok()?
            .modified()
            .ok()?
            .duration_since(UNIX_EPOCH)
            .ok()
    };
    let state = [
        state_dir.to_owned(),
        state_dir.join("aurae.db"),
        state_dir.join(SEED),
    ];
    let built = of(Path::new("/proc/self/exe"));
    let state = state.iter().filter_map(|path| of(path)).chain(built);
    let earliest = state.fold(written, Duration::max);
    let earliest = u64::try_from(earliest.as_nanos()).unwrap_or(0);
    if time::realtime_ns() < earliest {
        time::set_realtime_ns(earliest)?;
    }
    Ok(())
}

/// Makes a folder where it isn't there.
pub(super) fn ensure_folder(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(mode)
        .create(path)
        .call_on("mkdir", path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).call_on("chmod", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_line_says_whether_the_clock_shows_local_time() {
        assert!(shows_local_time("0.0 0 0.0\n0\nLOCAL\n"));
        assert!(!shows_local_time("0.0 0 0.0\n0\nUTC\n"));
        assert!(!shows_local_time("0.0 0 0.0\nLOCAL\n"));
        assert!(!shows_local_time(""));
    }
}
