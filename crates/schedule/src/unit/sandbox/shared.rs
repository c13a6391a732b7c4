// SPDX-License-Identifier: Apache-2.0
//! What the commands of an activation share, and those of units that join it: the folders behind
//! `/tmp` and `/var/tmp`, a network namespace, an IPC namespace, credentials.
//!
//! Each activation has a folder of its own below the node's run directory, named by its key. In it
//! are links to the folders in `/tmp` and `/var/tmp`, written before those are made, and files on
//! which the namespaces are mounted: so the kernel keeps them whatever becomes of the daemon, and
//! what finds the folder finds all of it. [`remove_orphans`] takes away what belongs to no
//! activation; it is the only end that there is, so a daemon that dies before it does nothing
//! wrong.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use kernel::mount::{self, Attributes};
use kernel::namespace::{self, Namespaces};
use rustix::fs::Mode;

use super::wants::Wants;
use crate::unit::dynamic::Dynamic;

/// The beginning of the names of folders in `/tmp` and `/var/tmp`.
const PREFIX: &str = "aurae-private-";

/// The two folders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tmp {
    pub(super) tmp: String,
    pub(super) var_tmp: String,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Shared {
    pub(super) tmp: Option<Tmp>,
    pub(super) network: Option<PathBuf>,
    pub(super) ipc: Option<PathBuf>,
}

impl Shared {
    /// What a unit wants of it, made where it isn't there.
    ///
    /// # Errors
    /// The status that systemd's process would have had, and why.
    pub(super) fn of(folder: &Path, wants: &Wants) -> Result<Shared, (u8, String)> {
        let mut shared = Shared::default();
        if !wants.private_tmp && !wants.private_network && !wants.private_ipc {
            return Ok(shared);
        }
        let failed = |status: u8, what: &str| {
            let what = what.to_owned();
            move |error: io::Error| (status, format!("{what}: {error}"))
        };
        fs::create_dir_all(folder).map_err(failed(226, "the unit's namespaces"))?;
        // Two commands of an activation may come at the same time, and those of a unit that joins.
        let lock = fs::File::open(folder).map_err(failed(226, "the unit's namespaces"))?;
        lock.lock().map_err(failed(226, "the unit's namespaces"))?;
        if wants.private_tmp {
            let make = |name, base| private(folder, name, base).map_err(failed(226, "PrivateTmp="));
            shared.tmp = Some(Tmp {
                tmp: make("tmp", "/tmp")?,
                var_tmp: make("var-tmp", "/var/tmp")?,
            });
        }
        if wants.private_network {
            let made = kept(folder, "net", Namespaces::NET);
            shared.network = Some(made.map_err(failed(225, "PrivateNetwork="))?);
        }
        if wants.private_ipc {
            let made = kept(folder, "ipc", Namespaces::IPC);
            shared.ipc = Some(made.map_err(failed(226, "PrivateIPC="))?);
        }
        Ok(shared)
    }
}

/// Copies of `/etc/passwd` and `/etc/group` that have a dynamic user's lines, too.
///
/// # Errors
/// The status that systemd's process would have had, and why.
pub(super) fn accounts(folder: &Path, user: &Dynamic) -> Result<[String; 2], (u8, String)> {
    let write = |name: &str, text: String| -> io::Result<String> {
        let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
        fs::create_dir_all(folder)?;
        let lock = fs::File::open(folder)?;
        lock.lock()?;
        fs::write(&new, text)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644))?;
        fs::rename(&new, &path)?;
        Ok(path.display().to_string())
    };
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let both = write("passwd", user.passwd(&read("/etc/passwd")))
        .and_then(|passwd| Ok([passwd, write("group", user.groups(&read("/etc/group")))?]));
    both.map_err(|error| (217, format!("DynamicUser=: {error}")))
}

/// A folder that is root's alone, with one in it that is everybody's. Its path.
fn private(folder: &Path, name: &str, base: &str) -> io::Result<String> {
    let link = folder.join(name);
    for _ in 0..16 {
        let outer = match fs::read_link(&link) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = Path::new(base).join(random_name(folder)?);
                symlink(&path, &link)?;
                path
            }
            Err(error) => return Err(error),
        };
        let made = match rustix::fs::mkdir(&outer, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => is_roots(&outer),
            Err(errno) => return Err(errno.into()),
        };
        if made {
            let inner = outer.join("tmp");
            match rustix::fs::mkdir(&inner, Mode::from_raw_mode(0o1777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            fs::set_permissions(&inner, fs::Permissions::from_mode(0o1777))?;
            return Ok(inner.display().to_string());
        }
        // Another process has put something there: another name.
        fs::remove_file(&link)?;
    }
    Err(io::Error::other("every name is taken by another process"))
}

/// Whether it is a folder, no link, that only root may enter.
fn is_roots(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|it| it.is_dir() && it.uid() == 0 && it.mode() & 0o7777 == 0o700)
}

/// `aurae-private-BOOT-KEY-RANDOM`.
fn random_name(folder: &Path) -> io::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let key = folder.file_name().unwrap_or_default().to_string_lossy();
    let random = u64::from_ne_bytes(bytes);
    Ok(format!("{PREFIX}{}-{key}-{random:016x}", boot()?))
}

fn boot() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().replace('-', ""))
}

/// A new namespace, mounted on a file. It is made by a thread that ends.
fn kept(folder: &Path, name: &str, kind: Namespaces) -> io::Result<PathBuf> {
    let path = folder.join(name);
    if path.exists() && mount::is_mount_point(&path)? {
        // The kernel lets no process open a namespace for writing.
        return Ok(path);
    }
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)?;
    let target = path.clone();
    let own = format!("/proc/thread-self/ns/{name}");
    let make = move || -> kernel::Result<()> {
        namespace::unshare(kind)?;
        if kind == Namespaces::NET {
            kernel::netlink::bring_loopback_up()?;
        }
        mount::bind(Path::new(&own), &target, false, Attributes::NONE)
    };
    let thread = std::thread::Builder::new().spawn(make)?;
    let ended = thread.join();
    ended.map_err(|_| io::Error::other("its thread has failed"))??;
    Ok(path)
}

/// Takes away what belongs to no activation with one of these keys. `run`: where the keys' folders
/// are.
pub(crate) fn remove_orphans(run: &Path, living: &BTreeSet<String>) {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(key) = entry.file_name().into_string() else {
            continue;
        };
        if living.contains(&key) {
            continue;
        }
        end(&entry.path());
    }
}

/// Takes away what commands of an activation shared, by its folder.
pub(crate) fn end(folder: &Path) {
    if !folder.exists() {
        return;
    }
    if let Err(error) = remove(folder) {
        let folder = folder.display();
        tracing::warn!(%folder, %error, "what a unit had for itself stays");
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    for name in ["net", "ipc"] {
        let path = folder.join(name);
        while path.exists() && mount::is_mount_point(&path)? {
            mount::unmount(&path, true)?;
        }
    }
    for name in ["tmp", "var-tmp"] {
        let Ok(outer) = fs::read_link(folder.join(name)) else {
            continue;
        };
        if is_roots(&outer) {
            fs::remove_dir_all(&outer)?;
        }
    }
    fs::remove_dir_all(folder)
}

/// Takes away folders that an earlier boot has left in `/var/tmp`, and `/tmp` where that is kept.
pub(crate) fn remove_of_earlier_boots() {
    let Ok(own) = boot().map(|boot| format!("{PREFIX}{boot}-")) else {
        return;
    };
    for base in ["/tmp", "/var/tmp"] {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let old = name.starts_with(PREFIX) && !name.starts_with(&own);
            if old && is_roots(&entry.path()) {
                // What can't be removed now is tried again with the next boot.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_no_activation_goes_with_its_folders() {
        let run = std::env::temp_dir().join(format!("aurae-shared-{}", std::process::id()));
        let folder = run.join("a-1");
        fs::create_dir_all(&folder).unwrap();
        let base = run.join("base");
        fs::create_dir_all(&base).unwrap();
        let inner = private(&folder, "tmp", base.to_str().unwrap()).unwrap();
        assert_eq!(private(&folder, "tmp", "/elsewhere").unwrap(), inner);
        let mode = fs::metadata(&inner).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o1777);
        remove_orphans(&run, &BTreeSet::from(["a-1".to_owned(), "base".to_owned()]));
        assert!(Path::new(&inner).exists());
        // A link that a daemon wrote before it died, and nothing behind it.
        symlink(base.join("never-made"), folder.join("var-tmp")).unwrap();
        remove_orphans(&run, &BTreeSet::from(["base".to_owned()]));
        // Only root's folders are taken away.
        let gone = !Path::new(&inner).exists();
        assert_eq!(gone, rustix::process::geteuid().is_root());
        assert!(!folder.exists());
        fs::remove_dir_all(&run).unwrap();
    }

    #[test]
    fn a_name_that_somebody_has_taken_is_given_up() {
        let run = std::env::temp_dir().join(format!("aurae-taken-{}", std::process::id()));
        fs::create_dir_all(run.join("base/taken")).unwrap();
        let folder = run.join("a-1");
        fs::create_dir_all(&folder).unwrap();
        // Everybody may enter it, so it is none of ours.
        symlink(run.join("base/taken"), folder.join("tmp")).unwrap();
        let inner = private(&folder, "tmp", run.join("base").to_str().unwrap()).unwrap();
        assert!(!inner.contains("/base/taken/"), "{inner}");
        fs::remove_dir_all(&run).unwrap();
    }
}
