// SPDX-License-Identifier: Apache-2.0
//! A program that is run to its end by who waits for it: a hook of a container, in the process that
//! is about to become that container's program, or in a command. It has a text on its standard
//! input, and what it writes is kept for an error. The daemon doesn't wait so (crate `programs`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use crate::poll::{self, Deadline, Interest};
use crate::{Context, Error, Result, pidfd};

/// The most of a program's output that is kept, in bytes.
const MOST_OUTPUT: u64 = 4096;

/// A program to be run.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its arguments, with its name first. Empty: its path alone.
    pub argv: Vec<&'a OsStr>,
    /// Its environment. `None`: the caller's.
    pub env: Option<Vec<(&'a OsStr, &'a OsStr)>>,
    /// How long it may take. `None`: for ever.
    pub timeout: Option<Duration>,
}

/// How a program ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It exited with 0.
    Well,
    /// It was killed when its time was over.
    TooLong,
    /// Otherwise.
    Badly {
        /// How.
        status: ExitStatus,
        /// The first 4 KiB of what it wrote, without blanks at the end.
        said: String,
    },
}

impl End {
    /// Why it didn't end well, in the words of container engines (`exit status 1, output: …`).
    /// `None`: it did.
    pub fn why(&self) -> Option<String> {
        let (status, said) = match self {
            End::Well => return None,
            End::TooLong => return Some("ended after its timeout".to_owned()),
            End::Badly { status, said } => (status, said),
        };
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            // As a filter ends it.
            (None, Some(libc::SIGSYS)) => "signal: bad system call".to_owned(),
            (None, Some(signal)) => format!("signal: {signal}"),
            (None, None) => "an unknown end".to_owned(),
        };
        Some(format!("{end}, output: {said}"))
    }
}

/// Runs it.
///
/// # Errors
/// It can't be executed, or waited for.
pub fn run(program: &Program<'_>, input: &[u8]) -> Result<End> {
    let failed = |call| {
        let path = program.path.to_owned();
        move |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Error::new(call, errno).about(path.display().to_string())
        }
    };
    let output = rustix::fs::memfd_create(c"output", MemfdFlags::CLOEXEC).call("memfd_create")?;
    let mut output = File::from(output);
    let copy = || output.try_clone().map_err(failed("dup"));
    let mut command = Command::new(program.path);
    if let [name, rest @ ..] = program.argv.as_slice() {
        command.arg0(name).args(rest);
    }
    if let Some(env) = &program.env {
        command.env_clear().envs(env.iter().copied());
    }
    command
        .stdin(Stdio::piped())
        .stdout(copy()?)
        .stderr(copy()?);
    let mut child = command.spawn().map_err(failed("execve"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that doesn't read is none the worse.
        let _ = stdin.write_all(input);
    }
    if let Some(timeout) = program.timeout {
        let pid = i32::try_from(child.id()).map_err(|_| Error::invalid("spawn", "a pid"))?;
        let pidfd = pidfd::open(pid)?;
        if !poll::wait(&pidfd, Interest::Readable, Deadline::after(timeout))? {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(End::TooLong);
        }
    }
    let status = child.wait().map_err(failed("waitpid"))?;
    if status.success() {
        return Ok(End::Well);
    }
    let mut said = Vec::new();
    let _ = output.rewind();
    let _ = output.take(MOST_OUTPUT).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).trim_end().to_owned();
    Ok(End::Badly { status, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Program<'_> {
        Program {
            path: Path::new("/bin/sh"),
            argv: ["sh", "-c", text].map(OsStr::new).to_vec(),
            env: Some(vec![(OsStr::new("A"), OsStr::new("b"))]),
            timeout: Some(Duration::from_secs(60)),
        }
    }

    #[test]
    fn a_program_is_told_apart_by_how_it_ends() {
        let end = run(&shell("[ \"$A$HOME$(cat)\" = bword ]"), b"word").unwrap();
        assert_eq!((end.why(), end), (None, End::Well));
        let end = run(&shell("echo no; exit 3"), b"").unwrap();
        assert_eq!(end.why().as_deref(), Some("exit status 3, output: no"));
        let end = run(&shell("kill -9 $$"), b"").unwrap();
        assert_eq!(end.why().as_deref(), Some("signal: 9, output: "));
        let short = Program {
            timeout: Some(Duration::from_millis(50)),
            ..shell("sleep 1000")
        };
        assert_eq!(run(&short, b"").unwrap(), End::TooLong);
        let missing = Program {
            path: Path::new("/no/such"),
            ..shell("")
        };
        let error = run(&missing, b"").unwrap_err();
        assert!(error.is(libc::ENOENT) && error.to_string().contains("/no/such"));
    }
}
