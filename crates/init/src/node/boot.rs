// SPDX-License-Identifier: Apache-2.0
//! The first steps of PID 1: mounts, the console, folders. And at the end of the machine the last
//! ones: unmounting.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use kernel::mount::{self, Attributes, NewFileSystem, info};
use kernel::{Context, Result, process};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::console::Console;
use super::disk;
use super::machine::{self, ensure_folder};
use super::state;
use crate::again::{again, insist};
use crate::initramfs;
use crate::options::Options;
use crate::protocol::Role;

/// File systems that hold nothing to be kept.
const TRANSIENT: [&str; 12] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "cgroup2",
    "cgroup",
    "tmpfs",
    "ramfs",
    "mqueue",
    "bpf",
    "tracefs",
    "securityfs",
];

/// What programs expect in /dev beside devices, `<(…)` of a shell for one: udev and most initramfs
/// make them, and the kernel doesn't.
const LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/core", "/proc/kcore"),
];

/// Makes a link, unless something has its name.
fn link((path, target): (&str, &str)) -> Result<()> {
    match std::os::unix::fs::symlink(target, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(kernel::Error::from_io("symlink", &error).on(Path::new(path)))
        }
        _ => Ok(()),
    }
}

/// Prepares the machine, or what of it a container or a service needs.
pub(super) fn boot(role: Role, options: &Options) -> Result<Console> {
    let console = match role {
        Role::Machine => {
            let mut problems = mount_machine();
            problems.extend(LINKS.into_iter().filter_map(|it| link(it).err()));
            open_console();
            let console = Console::of_machine();
            for problem in problems {
                console.say(&problem.to_string());
            }
            // Without /proc, which may be what could not be mounted, it is asked in vain.
            let is_initramfs = || mount_proc().and_then(|()| initramfs::is_here());
            if insist(|line| console.say(line), is_initramfs)? {
                initramfs::pass(console);
            }
            console.say(concat!(
                "init ",
                env!("CARGO_PKG_VERSION"),
                " of this machine"
            ));
            disk::open(options, &console);
            // A group of its own, and not the kernel's: the daemon's, too.
            if let Err(error) = process::new_session() {
                console.say(&format!(
                    "node-init has no process group of its own: {error}"
                ));
            }
            console
        }
        Role::Container => {
            for problem in mount_container() {
                Console::default().say(&problem.to_string());
            }
            Console::default()
        }
        Role::Service => Console::default(),
    };
    for (path, mode) in [
        (options.state_dir.clone(), 0o700),
        (options.run_dir.clone(), 0o755),
        (options.run_dir.join("cells"), 0o700),
    ] {
        if let Err(error) = again(|| ensure_folder(&path, mode)) {
            console.say(&format!(
                "{error}; choose another folder, or make this one writable"
            ));
        }
    }
    if role == Role::Machine {
        state::make_writable(options, &console);
        machine::set_up(options, &console);
    }
    Ok(console)
}

fn quiet() -> Attributes {
    Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC
}

/// The proc of a machine or container that came without one.
pub(super) fn mount_proc() -> Result<()> {
    place("/proc", || mount::proc(quiet()))
}

/// Mounts what makes a Linux machine, where it isn't mounted already. Returns what could not be.
fn mount_machine() -> Vec<kernel::Error> {
    let private = Attributes::NO_SUID | Attributes::NO_DEV;
    let device = Attributes::NO_SUID;
    let tty = Attributes::NO_SUID | Attributes::NO_EXEC;
    [
        mount_proc(),
        remount_root(),
        place("/sys", || mount::sysfs(quiet())),
        place("/dev", || {
            NewFileSystem::open("devtmpfs")?
                .set("mode", "0755")?
                .mount(device)
        }),
        place("/dev/pts", || mount::devpts(5, tty)),
        place("/dev/shm", || tmpfs(0o1777, private)),
        place("/run", || tmpfs(0o755, private)),
        match disk::mounts(Path::new("/tmp")) {
            true => Ok(()),
            false => place("/tmp", || tmpfs(0o1777, private)),
        },
        place("/sys/fs/cgroup", cgroup2),
    ]
    .into_iter()
    .filter_map(Result::err)
    .collect()
}

/// Mounts what the container's engine may not have mounted.
fn mount_container() -> Vec<kernel::Error> {
    let private = Attributes::NO_SUID | Attributes::NO_DEV;
    [
        mount_proc(),
        place("/run", || tmpfs(0o755, private)),
        place("/tmp", || tmpfs(0o1777, private)),
    ]
    .into_iter()
    .filter_map(Result::err)
    .collect()
}

fn tmpfs(mode: u32, attributes: Attributes) -> Result<OwnedFd> {
    NewFileSystem::open("tmpfs")?
        .set("mode", &format!("{mode:o}"))?
        .mount(attributes)
}

fn cgroup2() -> Result<OwnedFd> {
    let all = ["nsdelegate", "favordynmods", "memory_recursiveprot"];
    mount::cgroup2(&all, quiet())
        // A kernel before 6.0 doesn't know `favordynmods`.
        .or_else(|_| mount::cgroup2(&["nsdelegate", "memory_recursiveprot"], quiet()))
        .or_else(|_| mount::cgroup2(&[], quiet()))
}

/// Mounts at a folder where nothing is mounted yet; creates the folder where it can.
fn place(target: &'static str, make: impl Fn() -> Result<OwnedFd>) -> Result<()> {
    let path = Path::new(target);
    let mounted = again(|| {
        match mount::is_mount_point(path) {
            Ok(true) => return Ok(()),
            // Where the kernel can't say whether it is a mount point, mount: twice is better than
            // not at all.
            Err(error) if !error.is_not_found() && !error.is(Errno::NOSYS.raw_os_error()) => {
                return Err(error);
            }
            _ => {}
        }
        match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            result => result.call("mkdir")?,
        }
        mount::attach(make()?, path)
    });
    mounted.map_err(|error| error.about(format!("at {target}")))
}

/// The kernel mounts the root read-only unless told `rw`; state needs it writable. `ro` on the
/// command line, as the last of these words, leaves it to the disk's fstab ([`disk`]), and where
/// that says nothing it is meant.
fn remount_root() -> Result<()> {
    let words = again(|| std::fs::read_to_string("/proc/cmdline").call("/proc/cmdline"))?;
    let mut words = words.split_ascii_whitespace().rev();
    let stays = words.find(|word| matches!(*word, "ro" | "rw")) == Some("ro");
    if stays || !kernel::fsutil::space(Path::new("/"))?.read_only {
        return Ok(());
    }
    rustix::mount::mount_remount("/", MountFlags::RELATIME, c"").call_on("remount", Path::new("/"))
}

/// The console as standard streams, where the kernel hasn't opened it (it does so before `/dev` is
/// mounted).
fn open_console() {
    if rustix::io::fcntl_getfd(rustix::stdio::stderr()) != Err(Errno::BADF) {
        return;
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let console = ["/dev/console", "/dev/null"]
        .iter()
        .find_map(|path| rustix::fs::open(*path, flags, Mode::empty()).ok());
    if let Some(console) = console {
        // Moved away first: it may itself be one of the three.
        if let Ok(copy) = process::duplicate_above(console.as_fd(), 3) {
            let _ = (0..3).try_for_each(|number| process::place_fd(copy.as_fd(), number));
        }
    }
}

/// Takes every file system away that holds something, newest first; what is in use becomes
/// read-only.
pub(super) fn unmount_all() {
    for mounted in info::read().unwrap_or_default().iter().rev() {
        if TRANSIENT.contains(&mounted.fs_type.as_str()) {
            continue;
        }
        let root = mounted.target == Path::new("/");
        if root || rustix::mount::unmount(&mounted.target, UnmountFlags::NOFOLLOW).is_err() {
            let _ = rustix::mount::mount_remount(&mounted.target, MountFlags::RDONLY, c"");
        }
    }
}
