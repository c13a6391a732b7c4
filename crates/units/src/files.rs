// SPDX-License-Identifier: Apache-2.0
//! The port through which this crate sees a machine's files, and files in memory, which tests, the
//! fuzzer and checks of a single text use.

use std::collections::BTreeMap;

/// What a path is, its last part not followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An ordinary file, or anything else that is neither of these.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, and its target as it is written.
    Link(String),
}

/// What is in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name in the folder.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// A file is there and can't be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable(pub String);

/// When a file was last another one, as far as a file system tells: what it is, its size and times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp {
    /// Device and inode.
    pub file: (u64, u64),
    /// In bytes.
    pub size: u64,
    /// Change of its content and of the inode: nanoseconds of the real clock.
    pub changed: (i128, i128),
    /// When this was looked at.
    pub looked: i128,
}

/// File systems count time in steps of a clock's tick, some in seconds: what was changed so
/// shortly before the look may be changed again without another time, in nanoseconds.
const STEP: i128 = 2_000_000_000;

impl Stamp {
    /// Whether what was read when this was taken is what is there `now`.
    pub fn holds(&self, now: &Stamp) -> bool {
        let (content, inode) = self.changed;
        let is_settled = self.looked - content.max(inode) > STEP;
        let same = (self.file, self.size, self.changed) == (now.file, now.size, now.changed);
        is_settled && same
    }
}

/// Files of one machine. Paths are absolute.
pub trait Files {
    /// A file's bytes, links followed; `None` where there is none. `/dev/null` is empty.
    ///
    /// # Errors
    /// It is there and can't be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Unreadable>;

    /// What is in a folder, links to it followed, in any order; empty where it isn't one.
    fn list(&self, folder: &str) -> Vec<Entry>;

    /// Whether a file is there and has nothing in it.
    fn is_empty(&self, path: &str) -> bool {
        matches!(self.read(path), Ok(Some(bytes)) if bytes.is_empty())
    }

    /// By what a later change of a file or folder is seen, links followed; `None` where there is
    /// nothing, or where the implementation can't tell.
    fn stamp(&self, path: &str) -> Option<Stamp> {
        let _ = path;
        None
    }

    /// What a path is; the last part is not followed.
    fn kind(&self, path: &str) -> Option<Kind> {
        let (folder, name) = path.rsplit_once('/')?;
        let folder = if folder.is_empty() { "/" } else { folder };
        let found = self
            .list(folder)
            .into_iter()
            .find(|entry| entry.name == name)?;
        Some(found.kind)
    }
}

/// Files and links in memory. Folders are those that something is in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
}

/// As Linux counts them.
const MOST_LINKS: usize = 40;

impl Memory {
    /// Without files.
    pub fn new() -> Memory {
        Self::default()
    }

    /// With a file more.
    #[must_use]
    pub fn file(mut self, path: &str, text: impl Into<Vec<u8>>) -> Memory {
        self.links.remove(path);
        self.files.insert(path.to_owned(), text.into());
        self
    }

    /// With a symbolic link more.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Memory {
        self.files.remove(path);
        self.links.insert(path.to_owned(), target.to_owned());
        self
    }

    /// Without that file or link.
    #[must_use]
    pub fn without(mut self, path: &str) -> Memory {
        self.files.remove(path);
        self.links.remove(path);
        self
    }

    /// Every link, by its path.
    pub fn links(&self) -> impl Iterator<Item = (&str, &str)> {
        self.links.iter().map(|(path, target)| (&**path, &**target))
    }

    /// The path with every link in it followed.
    fn follow(&self, path: &str) -> Option<String> {
        let mut path = normal(path);
        for _ in 0..MOST_LINKS {
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
            let prefixes = ends.chain([path.len()]).filter_map(|end| path.get(..end));
            let linked = prefixes
                .filter_map(|prefix| Some((prefix, self.links.get(prefix)?)))
                .next();
            let Some((prefix, target)) = linked else {
                return Some(path);
            };
            let rest = path.get(prefix.len()..)?;
            path = normal(&format!("{}{rest}", resolve(prefix, target)));
        }
        None
    }
}

impl Files for Memory {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Unreadable> {
        let Some(path) = self.follow(path) else {
            return Err(Unreadable(format!("{path} has too many links")));
        };
        if path == "/dev/null" {
            return Ok(Some(Vec::new()));
        }
        Ok(self.files.get(&path).cloned())
    }

    fn list(&self, folder: &str) -> Vec<Entry> {
        let Some(folder) = self.follow(folder) else {
            return Vec::new();
        };
        let prefix = if folder == "/" {
            folder
        } else {
            format!("{folder}/")
        };
        let mut entries: BTreeMap<String, Kind> = BTreeMap::new();
        let all = self.files.keys().map(|path| (path, Kind::File));
        let links = self.links.iter();
        let all = all.chain(links.map(|(path, target)| (path, Kind::Link(target.clone()))));
        for (path, kind) in all {
            let Some(rest) = path.strip_prefix(&prefix) else {
                continue;
            };
            match rest.split_once('/') {
                Some((name, _)) => entries.insert(name.to_owned(), Kind::Folder),
                None => entries.insert(rest.to_owned(), kind),
            };
        }
        entries
            .into_iter()
            .map(|(name, kind)| Entry { name, kind })
            .collect()
    }
}

/// Where a link at `path` leads.
pub fn resolve(path: &str, target: &str) -> String {
    if target.starts_with('/') {
        return normal(target);
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    normal(&format!("{folder}/{target}"))
}

/// Without empty parts, `.` and `..`.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The last part of a path.
pub(crate) fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_on_the_way_and_at_the_end() {
        let files = Memory::new()
            .file("/usr/lib/systemd/a.service", "text")
            .link("/lib", "usr/lib")
            .link("/etc/b.service", "../lib/systemd/a.service")
            .link("/etc/loop", "loop")
            .link("/etc/masked", "/dev/null");
        assert_eq!(
            files.read("/lib/systemd/a.service"),
            Ok(Some(b"text".to_vec()))
        );
        assert_eq!(files.read("/etc/b.service"), Ok(Some(b"text".to_vec())));
        assert_eq!(files.read("/etc/masked"), Ok(Some(Vec::new())));
        assert_eq!(files.read("/etc/none"), Ok(None));
        assert!(files.read("/etc/loop").is_err());
        assert_eq!(files.kind("/lib"), Some(Kind::Link("usr/lib".to_owned())));
        assert_eq!(files.kind("/usr"), Some(Kind::Folder));
        assert_eq!(files.list("/lib").len(), 1);
    }

    #[test]
    fn paths_are_made_plain() {
        assert_eq!(normal("//a/./b/../c/"), "/a/c");
        assert_eq!(resolve("/a/b/c", "../d"), "/a/d");
    }
}
