// SPDX-License-Identifier: Apache-2.0
//! Executing a program: prepared arguments, the search in `PATH`, `execve`.
//!
//! Everything that allocates happens in [`Prepared::new`] and [`candidates`]; [`Prepared::exec`]
//! only calls the kernel. [`unwritable`] is for a program whose processes others may look into.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;

use crate::mount::{self, Attributes, Change};
use crate::{Context, Error, Result, sealed};

/// Where a program without `/` is looked for when `PATH` isn't set.
pub const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Arguments and environment as `execve` takes them.
#[derive(Debug)]
pub struct Prepared {
    // The pointers below point into these; both stay as they are.
    _strings: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Prepared {
    /// Copies both.
    ///
    /// # Errors
    /// `EINVAL`: `argv` is empty, or an argument or a variable has a NUL byte in it.
    pub fn new<A: AsRef<[u8]>, E: AsRef<[u8]>>(argv: &[A], env: &[E]) -> Result<Prepared> {
        if argv.is_empty() {
            return Err(Error::invalid("execve", "no argv[0]"));
        }
        let mut strings = Vec::with_capacity(argv.len().saturating_add(env.len()));
        for argument in argv {
            strings.push(c_string(argument.as_ref(), "NUL in an argument")?);
        }
        for variable in env {
            strings.push(c_string(variable.as_ref(), "NUL in the environment")?);
        }
        let (arguments, variables) = strings.split_at(argv.len());
        let (argv, envp) = (pointers(arguments), pointers(variables));
        Ok(Prepared {
            _strings: strings,
            argv,
            envp,
        })
    }

    /// Becomes the program at `path`. Returns only on failure.
    ///
    /// # Errors
    /// `ENOENT`: there is no such file, or its interpreter is missing. `EACCES`: it is not
    /// executable, or its mount is `noexec`. `ENOEXEC`: the kernel doesn't know its format.
    /// `E2BIG`: arguments and environment are longer than a quarter of `RLIMIT_STACK`, or one
    /// string than 128 KiB. `EAGAIN`: the user has more processes than `RLIMIT_NPROC`. `ETXTBSY`:
    /// the file is open for writing.
    pub fn exec(&self, path: &CStr) -> Result<Infallible> {
        // SAFETY: both arrays end with a null pointer and point to NUL-terminated strings that
        // `self` owns.
        unsafe { libc::execve(path.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        Err(Error::last("execve").about(path.to_string_lossy().into_owned()))
    }

    /// Becomes the program behind a descriptor.
    ///
    /// # Errors
    /// `ENOENT`: a script whose descriptor is close-on-exec. Else those of [`Prepared::exec`].
    pub fn exec_fd(&self, program: BorrowedFd<'_>) -> Result<Infallible> {
        let (fd, flags) = (program.as_raw_fd(), libc::AT_EMPTY_PATH);
        let (argv, envp) = (self.argv.as_ptr(), self.envp.as_ptr());
        // SAFETY: as in `exec`; the path is an empty C string.
        unsafe { libc::syscall(libc::SYS_execveat, fd, c"".as_ptr(), argv, envp, flags) };
        Err(Error::last("execveat"))
    }

    /// Tries the candidates in order, as a shell does: it goes on after one that is missing or that
    /// the caller may not execute. Returns only on failure.
    ///
    /// # Errors
    /// `EACCES` of the first candidate that may not be executed; `ENOENT` where none is there. Any
    /// other error of [`Prepared::exec`] ends the search.
    pub fn exec_first(&self, candidates: &[CString]) -> Result<Infallible> {
        let mut denied = None;
        for path in candidates {
            match self.exec(path) {
                Err(e) if e.is(libc::ENOENT) || e.is(libc::ENOTDIR) => {}
                Err(e) if e.is(libc::EACCES) => denied = denied.or(Some(e)),
                other => return other,
            }
        }
        Err(denied.unwrap_or(Error::new("execve", Errno::NOENT).about("no such program")))
    }
}

/// A program to be executed by [`Prepared::exec_fd`], whose file can't be written through
/// `/proc/PID/exe` of its processes, whatever user opens that: by a read-only mount that is in no
/// mount namespace, so that it can't be changed, or by a sealed copy in memory where no such mount
/// can be made (the file's own mount is of another namespace, or the caller isn't privileged).
///
/// # Errors
/// Those of opening and reading the file and of [`sealed::copy`].
pub fn unwritable(program: &Path) -> Result<OwnedFd> {
    let read_only = Change {
        set: Attributes::READ_ONLY,
        ..Change::default()
    };
    let mounted = mount::copy_tree(program, false)
        .and_then(|copy| mount::set_attributes(&copy, &read_only).map(|()| copy));
    mounted.or_else(|_| {
        let mut file = std::fs::File::open(program).call_on("open", program)?;
        let copy = sealed::copy(c"program", &mut file)?;
        // What is open for writing is not executed, sealed or not.
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let path = Path::new(&path);
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::open(path, flags, rustix::fs::Mode::empty()).call_on("open", path)
    })
}

fn c_string(bytes: &[u8], reason: &'static str) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::invalid("execve", reason))
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// The paths where `program` may be: itself if it has a `/`, else in the folders of `search` (a
/// `PATH`; an empty folder is the working directory, as POSIX has it).
///
/// # Errors
/// `ENOENT`: `program` is empty. `EINVAL`: there is a NUL in `program` or `search`.
pub fn candidates(program: &[u8], search: &[u8]) -> Result<Vec<CString>> {
    if program.is_empty() {
        return Err(Error::new("execve", Errno::NOENT).about("an empty program name"));
    }
    if program.contains(&b'/') {
        return Ok(vec![c_string(program, "NUL in the program's path")?]);
    }
    let folders = search.split(|b| *b == b':');
    let path = |folder: &[u8]| {
        let folder = if folder.is_empty() { b"." } else { folder };
        c_string(
            &[folder, b"/", program].concat(),
            "NUL in the program's path",
        )
    };
    folders.map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_in_the_path_and_a_path_is_taken_as_it_is() {
        let found = candidates(b"ls", b"/bin::/usr/bin").unwrap();
        assert_eq!(
            found,
            [c"/bin/ls", c"./ls", c"/usr/bin/ls"].map(CString::from)
        );
        assert_eq!(
            candidates(b"./ls", b"/bin").unwrap(),
            [CString::from(c"./ls")]
        );
        assert_eq!(candidates(b"", b"/bin").unwrap_err().errno(), libc::ENOENT);
    }

    #[test]
    fn what_exec_cannot_take_is_refused_before() {
        let none: [&[u8]; 0] = [];
        assert_eq!(
            Prepared::new(&none, &none).unwrap_err().errno(),
            libc::EINVAL
        );
        assert!(
            Prepared::new(&["a\0b"], &none)
                .unwrap_err()
                .to_string()
                .contains("argument")
        );
        assert!(
            Prepared::new(&["a"], &["X=\0"])
                .unwrap_err()
                .to_string()
                .contains("environment")
        );
    }

    #[test]
    fn a_missing_and_a_forbidden_program_are_told_apart() {
        let none: [&[u8]; 0] = [];
        let prepared = Prepared::new(&["x"], &none).unwrap();
        let missing = candidates(b"surely-not-there", b"/bin:/usr/bin").unwrap();
        assert_eq!(
            prepared.exec_first(&missing).unwrap_err().errno(),
            libc::ENOENT
        );
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("surely-not-there"), "x").unwrap();
        let search = format!("/bin:{}:/usr/bin", dir.path().display());
        let denied = candidates(b"surely-not-there", search.as_bytes()).unwrap();
        assert_eq!(
            prepared.exec_first(&denied).unwrap_err().errno(),
            libc::EACCES
        );
    }
}
