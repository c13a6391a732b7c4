// SPDX-License-Identifier: Apache-2.0
//! The crate's error: a call, what it was about, and the errno.
//!
//! Not an enum of causes: the kernel's errno is the cause, and callers that care match on it with
//! [`Error::errno`]. Making one allocates only where the detail is not a literal.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use rustix::io::Errno;

/// A shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A system call, or a step made of some, that failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    call: &'static str,
    detail: Cow<'static, str>,
    errno: Errno,
}

impl Error {
    /// The call `call` failed with `errno`.
    pub const fn new(call: &'static str, errno: Errno) -> Self {
        Self {
            call,
            detail: Cow::Borrowed(""),
            errno,
        }
    }

    /// An error that this crate itself found: `EINVAL` with a reason.
    pub const fn invalid(call: &'static str, reason: &'static str) -> Self {
        Self {
            call,
            detail: Cow::Borrowed(reason),
            errno: Errno::INVAL,
        }
    }

    /// The errno that the last libc call left behind.
    pub fn last(call: &'static str) -> Self {
        Self::from_io(call, &io::Error::last_os_error())
    }

    /// From an [`io::Error`]; one without an errno becomes `EIO`.
    pub fn from_io(call: &'static str, error: &io::Error) -> Self {
        Self::new(call, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// From a plain number, for instance one that another process sent.
    pub fn from_raw(call: &'static str, errno: i32) -> Self {
        Self::new(call, Errno::from_raw_os_error(errno))
    }

    /// Says what the call was about: a path, a field, a reason.
    #[must_use]
    pub fn about(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Says which path the call was about.
    #[must_use]
    pub fn on(self, path: &Path) -> Self {
        let path = path.to_string_lossy().into_owned();
        self.about(path)
    }

    /// The errno, as in `libc`.
    pub fn errno(&self) -> i32 {
        self.errno.raw_os_error()
    }

    /// The name of the call.
    pub const fn call(&self) -> &'static str {
        self.call
    }

    /// The path, field or reason that the call was about; may be empty.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether the errno is this one.
    pub fn is(&self, errno: i32) -> bool {
        self.errno.raw_os_error() == errno
    }

    /// Whether the call would have had to wait (`EAGAIN`).
    pub fn is_would_block(&self) -> bool {
        self.errno == Errno::AGAIN
    }

    /// Whether the thing is not there (`ENOENT`).
    pub fn is_not_found(&self) -> bool {
        self.errno == Errno::NOENT
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        write!(f, ": {}", io::Error::from(self.errno))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::from(error.errno)
    }
}

/// Turns the errors of rustix and the standard library into [`Error`].
pub trait Context<T> {
    /// Turns an error into one that names the call.
    fn call(self, call: &'static str) -> Result<T>;
    /// Names the call and the path.
    fn call_on(self, call: &'static str, path: &Path) -> Result<T>;
}

impl<T> Context<T> for rustix::io::Result<T> {
    fn call(self, call: &'static str) -> Result<T> {
        self.map_err(|errno| Error::new(call, errno))
    }

    fn call_on(self, call: &'static str, path: &Path) -> Result<T> {
        self.map_err(|errno| Error::new(call, errno).on(path))
    }
}

impl<T> Context<T> for io::Result<T> {
    fn call(self, call: &'static str) -> Result<T> {
        self.map_err(|error| Error::from_io(call, &error))
    }

    fn call_on(self, call: &'static str, path: &Path) -> Result<T> {
        self.map_err(|error| Error::from_io(call, &error).on(path))
    }
}

/// The result of a libc call that answers -1 on failure.
pub(crate) fn check(call: &'static str, result: libc::c_long) -> Result<libc::c_long> {
    if result < 0 {
        Err(Error::last(call))
    } else {
        Ok(result)
    }
}
