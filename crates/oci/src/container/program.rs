// SPDX-License-Identifier: Apache-2.0
//! The program of a process: found, in the container and with its user's rights, before the
//! engine hears that the container is there. And what it is executed with.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use kernel::exec::{self, DEFAULT_PATH, Prepared};
use kernel::fsutil::OpenFlags;
use rustix::fs::{Access, AtFlags, CWD, FileType};
use rustix::io::Errno;

use crate::config::Process;
use crate::error::{Doing, Error, Result, refuse};
use crate::root::tree::Tree;

/// The most of `/etc/passwd` that is read, in bytes.
const MOST_PASSWD: u64 = 4 << 20;

/// A program, ready to be executed.
#[derive(Debug)]
pub(crate) struct Program {
    paths: Vec<CString>,
    env: Vec<String>,
    prepared: Prepared,
}

impl Program {
    /// Looks for it. In its messages are the words that engines look for.
    pub(crate) fn find(process: &Process, env: &[String]) -> Result<Program> {
        let Some(name) = process.args.first() else {
            return refuse("args must not be empty");
        };
        let path = env.iter().rev().find_map(|pair| pair.strip_prefix("PATH="));
        let search = path.map_or(DEFAULT_PATH, str::as_bytes);
        let candidates = match name.as_str() {
            "" => Vec::new(),
            name => exec::candidates(name.as_bytes(), search)?,
        };
        let paths = executable(name, candidates)?;
        let prepared = Prepared::new(&process.args, env)?;
        Ok(Program {
            paths,
            env: env.to_vec(),
            prepared,
        })
    }

    /// The variables that it gets.
    pub(crate) fn env(&self) -> &[String] {
        &self.env
    }

    /// Becomes it; returns only on failure.
    pub(crate) fn exec(&self) -> Error {
        match self.prepared.exec_first(&self.paths) {
            Ok(never) => match never {},
            Err(error) => {
                let path = self
                    .paths
                    .first()
                    .map(|path| path.to_string_lossy().into_owned());
                let reason = plain(&std::io::Error::from(error));
                Error::new(format!("exec {}: {reason}", path.unwrap_or_default()))
            }
        }
    }
}

/// The words of an errno, as engines know them: in small letters and without the number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    words.to_lowercase()
}

/// Those of the candidates that may be executed.
fn executable(name: &str, candidates: Vec<CString>) -> Result<Vec<CString>> {
    let plain = name.contains('/');
    let mut denied = None;
    let mut found = Vec::new();
    for path in candidates {
        match may_execute(&path) {
            Ok(()) => found.push(path),
            Err(Errno::NOENT | Errno::NOTDIR) if !plain => {}
            Err(Errno::NOENT | Errno::NOTDIR) => {
                return refuse(format!(
                    "exec: {name:?}: stat {name}: no such file or directory"
                ));
            }
            Err(Errno::ISDIR) if plain => return refuse(format!("exec: {name:?}: is a directory")),
            Err(errno) => denied = denied.or(Some(errno)),
        }
    }
    match (found.is_empty(), denied) {
        (false, _) => Ok(found),
        (true, Some(Errno::ACCESS | Errno::ISDIR)) => {
            refuse(format!("exec: {name:?}: permission denied"))
        }
        (true, Some(errno)) => refuse(format!("exec: {name:?}: {errno}")),
        (true, None) => refuse(format!(
            "exec: {name:?}: executable file not found in $PATH"
        )),
    }
}

fn may_execute(path: &CString) -> Result<(), Errno> {
    let stat = rustix::fs::stat(path)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Err(Errno::ISDIR);
    }
    // With the rights that the process has by now, its file system's included.
    match rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        // A filter that doesn't know the call, before Linux 5.8 itself: the exec will say.
        Err(Errno::NOSYS | Errno::PERM) if stat.st_mode & 0o111 != 0 => Ok(()),
        other => other,
    }
}

/// The variables of a process, with `HOME` of the container's own users where none is given.
pub(crate) fn environment(process: &Process, root: &Tree) -> Result<Vec<String>> {
    let mut env: Vec<String> = Vec::with_capacity(process.env.len() + 1);
    for pair in &process.env {
        let Some((name, _)) = pair.split_once('=') else {
            return refuse(format!("process.env: {pair:?} has no `=`"));
        };
        if name.is_empty() || pair.contains('\0') {
            return refuse(format!("process.env: {pair:?} isn't a variable"));
        }
        // Of two of one name the later counts.
        env.retain(|known| known.split_once('=').is_none_or(|(known, _)| known != name));
        env.push(pair.clone());
    }
    let home = env.iter().position(|pair| pair.starts_with("HOME="));
    let has = home.is_some_and(|at| env.get(at).is_some_and(|pair| pair != "HOME="));
    if !has {
        env.retain(|pair| pair != "HOME=");
        env.push(format!("HOME={}", self::home(process.user.uid, root)));
    }
    Ok(env)
}

/// The home folder of a user, by the container's `/etc/passwd`.
fn home(uid: u32, root: &Tree) -> String {
    let text = read_users(root).unwrap_or_default();
    let wanted = uid.to_string();
    let home = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is = fields.nth(2)? == wanted;
        let home = fields.nth(2)?;
        (is && home.starts_with('/')).then(|| home.to_owned())
    });
    home.unwrap_or_else(|| "/".to_owned())
}

/// The file counts as hostile: a bounded read of a regular one.
fn read_users(root: &Tree) -> Result<String> {
    let flags = OpenFlags::RDONLY | OpenFlags::NONBLOCK;
    let file: OwnedFd = root.open(Path::new("/etc/passwd"), flags)?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return refuse("/etc/passwd isn't a regular file");
    }
    let mut text = Vec::new();
    let file = std::fs::File::from(file);
    file.take(MOST_PASSWD)
        .read_to_end(&mut text)
        .doing("read /etc/passwd")?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
