// SPDX-License-Identifier: Apache-2.0
//! A machine's files below its root, as crate `units` sees them. Links are followed as if that
//! root were `/`, so none leads out of a disk that is mounted somewhere.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use units::files::{Entry, Files, Kind, Unreadable, normal, resolve};
use units::specifier::{Fact, Host};

use crate::failure::Failure;

/// As Linux counts them.
const MOST_LINKS: usize = 40;
/// More of a file is not read: crate `units` takes no larger one.
const LARGEST: u64 = (16 << 20) + 1;

/// The machine.
pub(crate) struct Machine {
    root: PathBuf,
    /// A folder of the caller's, in which files are whatever the root is.
    beside: Option<String>,
}

impl Machine {
    pub(crate) fn new(root: &Path, beside: Option<String>) -> Result<Machine, Failure> {
        let failed = |problem| Failure::new(format!("--root {}: {problem}", root.display()));
        let root = root.canonicalize().map_err(failed)?;
        if !root.is_dir() {
            return Err(Failure::usage(format!(
                "--root {}: no folder",
                root.display()
            )));
        }
        Ok(Machine { root, beside })
    }

    /// Where that is. The path is normal.
    fn at(&self, path: &str) -> PathBuf {
        let own = self.beside.as_deref();
        let rest = own.and_then(|own| path.strip_prefix(own));
        match rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            true => PathBuf::from(path),
            false => self.root.join(path.trim_start_matches('/')),
        }
    }

    /// With links followed below the root. `None`: there are too many.
    fn follow(&self, path: &str) -> Option<String> {
        let mut path = normal(path);
        for _ in 0..MOST_LINKS {
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
            let mut prefixes = ends.chain([path.len()]).filter_map(|end| path.get(..end));
            let link = prefixes.find_map(|it| Some((it, fs::read_link(self.at(it)).ok()?)));
            let Some((prefix, target)) = link else {
                return Some(path);
            };
            let rest = path.get(prefix.len()..)?;
            path = normal(&(resolve(prefix, &target.to_string_lossy()) + rest));
        }
        None
    }

    /// Where a file is that is to be made or removed: the links of its folder are followed below
    /// the root, its own isn't. `None`: there are too many.
    pub(crate) fn place(&self, path: &str) -> Option<PathBuf> {
        let (folder, name) = path.rsplit_once('/')?;
        let folder = self.follow(folder)?;
        Some(self.at(&folder).join(name))
    }

    /// The first line of a file, without what is around it.
    fn line(&self, path: &str) -> Option<String> {
        let bytes = self.read(path).ok()??;
        let text = String::from_utf8(bytes).ok()?;
        Some(text.lines().next()?.trim().to_owned())
    }

    /// The time zone: where `/etc/localtime` leads. `None`: UTC, or unknown.
    pub(crate) fn zone(&self) -> Option<String> {
        let link = fs::read_link(self.at("/etc/localtime")).ok()?;
        let link = link.to_string_lossy().into_owned();
        let (_, name) = link.split_once("zoneinfo/")?;
        (!matches!(name, "UTC" | "Etc/UTC")).then(|| name.to_owned())
    }

    /// A variable of os-release(5): empty where it isn't set.
    fn release(&self, key: &str) -> Option<String> {
        let bytes = ["/etc/os-release", "/usr/lib/os-release"].into_iter();
        let bytes = bytes.filter_map(|path| self.read(path).ok()?).next()?;
        let text = String::from_utf8(bytes).ok()?;
        let mut lines = text.lines().filter_map(|line| line.trim().split_once('='));
        let value = lines.find(|(name, _)| *name == key).map(|(_, value)| value);
        Some(value.unwrap_or("").trim_matches(['"', '\'']).to_owned())
    }
}

impl Files for Machine {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Unreadable> {
        let unreadable = |problem: String| Unreadable(format!("can't be read: {problem}"));
        let Some(path) = self.follow(path) else {
            return Err(unreadable("too many links".to_owned()));
        };
        if path == "/dev/null" {
            return Ok(Some(Vec::new()));
        }
        let found = self.at(&path);
        // A pipe would be waited for.
        match fs::metadata(&found) {
            Ok(data) if data.is_file() => {}
            Ok(_) => return Err(unreadable("it is no ordinary file".to_owned())),
            Err(problem) if problem.kind() == ErrorKind::NotFound => return Ok(None),
            Err(problem) => return Err(unreadable(problem.to_string())),
        }
        let mut bytes = Vec::new();
        let read = fs::File::open(&found).and_then(|it| it.take(LARGEST).read_to_end(&mut bytes));
        read.map_err(|problem| unreadable(problem.to_string()))?;
        Ok(Some(bytes))
    }

    fn list(&self, folder: &str) -> Vec<Entry> {
        let found = self
            .follow(folder)
            .map(|folder| fs::read_dir(self.at(&folder)));
        let entries = found.into_iter().flatten().flatten().flatten();
        let entry = |entry: fs::DirEntry| {
            let kind = match entry.file_type().ok()? {
                kind if kind.is_symlink() => {
                    let target = fs::read_link(entry.path()).ok()?;
                    Kind::Link(target.to_string_lossy().into_owned())
                }
                kind if kind.is_dir() => Kind::Folder,
                _ => Kind::File,
            };
            let name = entry.file_name().into_string().ok()?;
            Some(Entry { name, kind })
        };
        entries.filter_map(entry).collect()
    }
}

impl Host for Machine {
    fn fact(&self, fact: Fact) -> Option<String> {
        let running = |path: &str| {
            let line = (self.root == Path::new("/")).then(|| self.line(path))?;
            line.map(|it| it.replace('-', ""))
        };
        match fact {
            // The one that this program is made for.
            Fact::Architecture => Some(std::env::consts::ARCH.replace('_', "-")),
            Fact::BootId => running("/proc/sys/kernel/random/boot_id"),
            Fact::MachineId => self.line("/etc/machine-id"),
            Fact::HostName => self.line("/etc/hostname"),
            Fact::PrettyHostName => {
                let name = self.line("/etc/hostname")?;
                Some(name.split('.').next().unwrap_or("").to_owned())
            }
            Fact::KernelRelease => {
                let here = self.root == Path::new("/");
                here.then(|| self.line("/proc/sys/kernel/osrelease"))?
            }
            Fact::OsId => self.release("ID"),
            Fact::OsVersion => self.release("VERSION_ID"),
            Fact::OsVariant => self.release("VARIANT_ID"),
            Fact::BuildId => self.release("BUILD_ID"),
            Fact::ImageId => self.release("IMAGE_ID"),
            Fact::ImageVersion => self.release("IMAGE_VERSION"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leads_out_of_a_mounted_disk() {
        let disk = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "outside").unwrap();
        fs::create_dir_all(disk.path().join("usr/lib")).unwrap();
        fs::write(disk.path().join("usr/lib/a.service"), "inside").unwrap();
        symlink("usr/lib", disk.path().join("lib")).unwrap();
        symlink("/usr/lib/a.service", disk.path().join("b.service")).unwrap();
        symlink(outside.path().join("secret"), disk.path().join("c.service")).unwrap();
        symlink("../../../../../../lib", disk.path().join("usr/up")).unwrap();
        symlink("loop", disk.path().join("loop")).unwrap();
        let machine = Machine::new(disk.path(), None).unwrap();
        let text = |path: &str| {
            machine
                .read(path)
                .map(|it| it.map(|b| String::from_utf8(b).unwrap()))
        };
        for path in ["/lib/a.service", "/b.service", "/usr/up/a.service"] {
            assert_eq!(text(path), Ok(Some("inside".to_owned())), "{path}");
        }
        assert_eq!(text("/c.service"), Ok(None));
        assert!(text("/loop").is_err() && text("/usr").is_err());
        assert_eq!(machine.list("/lib").len(), 1);
    }
}
