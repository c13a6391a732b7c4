// SPDX-License-Identifier: Apache-2.0
//! Standard streams that an executable's own process opens: files and terminals, in its view of
//! files, with the rights of the cell's root. Runs in the child alone ([`super::launch`]).

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kernel::fsutil::OpenFlags;
use kernel::{Context, process, tty};
use rustix::fs::inotify;
use rustix::io::Errno;

use super::follow;
use crate::failure::InStep;
use crate::protocol::{Failure, Open, OpenHow, Step};

/// The mode of a file that is made, before the mask.
const NEW_FILE: u32 = 0o666;

/// Opens one and puts it in its place.
pub(super) fn open(open: &Open, all: &[Open]) -> Result<(), Failure> {
    let number = i32::from(open.stream);
    let invalid = |what: &str| Failure::new(Step::Open, Errno::INVAL.raw_os_error(), what);
    match (open.how, open.stream) {
        (_, 3..) => Err(invalid("there are three standard streams")),
        (OpenHow::Same, 0) => Err(invalid("no stream comes before standard input")),
        (OpenHow::Same, _) => {
            let before = match open.stream {
                1 => rustix::stdio::stdin(),
                _ => rustix::stdio::stdout(),
            };
            process::place_fd(before, number).step(Step::Open)
        }
        _ => {
            let inherited = all
                .iter()
                .any(|it| it.how == OpenHow::Same && it.stream == 1);
            let stream = one(open, inherited)?;
            process::place_fd(stream.as_fd(), number).step(Step::Open)?;
            control(open)
        }
    }
}

/// `inherited`: standard output is to be what standard input is.
fn one(open: &Open, inherited: bool) -> Result<OwnedFd, Failure> {
    let path = Path::new(OsStr::from_bytes(&open.path));
    let flags = match (open.how, open.stream) {
        (how, _) if is_terminal(how) => OpenFlags::RDWR,
        (_, 0) if inherited => OpenFlags::RDWR,
        (_, 0) => OpenFlags::RDONLY,
        (OpenHow::Append, _) => OpenFlags::WRONLY | OpenFlags::CREATE | OpenFlags::APPEND,
        (OpenHow::Truncate, _) => OpenFlags::WRONLY | OpenFlags::CREATE | OpenFlags::TRUNC,
        _ => OpenFlags::WRONLY | OpenFlags::CREATE,
    };
    // Not blocking: a FIFO without another end, or a line without a carrier, would hold it for
    // ever.
    let opened = follow::open_or_make(path, flags | OpenFlags::NONBLOCK, NEW_FILE);
    let stream = opened.map_err(|error| match error.is(Errno::NXIO.raw_os_error()) {
        true => {
            let detail = format!("{}, a FIFO that no process reads", path.display());
            Failure::new(Step::Open, error.errno(), detail)
        }
        false => refused(path, &error),
    })?;
    // The program's own reads and writes block, as it expects.
    rustix::io::ioctl_fionbio(&stream, false)
        .call_on("ioctl(FIONBIO)", path)
        .step(Step::Open)?;
    match is_terminal(open.how) && !rustix::termios::isatty(&stream) {
        true => Err(refused(path, &kernel::Error::new("isatty", Errno::NOTTY))),
        false => Ok(stream),
    }
}

fn refused(path: &Path, error: &kernel::Error) -> Failure {
    Failure::new(Step::Open, error.errno(), path.display().to_string())
}

const fn is_terminal(how: OpenHow) -> bool {
    matches!(
        how,
        OpenHow::Terminal | OpenHow::TerminalWhenFree | OpenHow::TerminalByForce
    )
}

/// The terminal of standard input controls the session.
fn control(open: &Open) -> Result<(), Failure> {
    if open.stream != 0 {
        return Ok(());
    }
    match open.how {
        OpenHow::Terminal => tty::make_controlling(rustix::stdio::stdin()),
        OpenHow::TerminalByForce => tty::take_controlling(rustix::stdio::stdin()),
        OpenHow::TerminalWhenFree => return when_free(open),
        _ => return Ok(()),
    }
    .step(Step::Open)
}

/// Waits until no other session has the terminal. It may take as long as a start may.
fn when_free(open: &Open) -> Result<(), Failure> {
    let path = Path::new(OsStr::from_bytes(&open.path));
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)
        .call("inotify_init1")
        .step(Step::Open)?;
    // Before the first try: what is closed meanwhile is told.
    inotify::add_watch(&watch, path, inotify::WatchFlags::CLOSE)
        .call_on("inotify_add_watch", path)
        .step(Step::Open)?;
    loop {
        match tty::make_controlling(rustix::stdio::stdin()) {
            Err(error) if error.is(Errno::PERM.raw_os_error()) => {}
            done => return done.step(Step::Open),
        }
        let mut events = [0; 4096];
        match rustix::io::read(&watch, &mut events) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                let error = kernel::Error::new("read(inotify)", errno);
                return Err(Failure::of(Step::Open, &error));
            }
        }
    }
}
