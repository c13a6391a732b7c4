// SPDX-License-Identifier: Apache-2.0
//! Terminals: pairs, sizes, raw mode, the controlling terminal.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios, Winsize};

use crate::{Context, Result};

/// A terminal's size, in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Characters in a line.
    pub columns: u16,
    /// Lines on the screen.
    pub rows: u16,
}

/// A new pseudo-terminal of the devpts at `/dev/pts`: (master, slave), both close-on-exec; neither
/// becomes the caller's controlling terminal.
///
/// # Errors
/// `ENOENT`: there is no `/dev/ptmx`. `ENOSPC`: past `kernel.pty.max` or the devpts's own bound.
/// `EMFILE`: the process has no descriptors left.
pub fn open_pair() -> Result<(OwnedFd, OwnedFd)> {
    open_pair_of(Path::new("/dev/ptmx"))
}

/// [`open_pair`] of another devpts, by its `ptmx`.
///
/// # Errors
/// Those of [`open_pair`]. `ENOTTY`: `ptmx` is no such device.
pub fn open_pair_of(ptmx: &Path) -> Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open(ptmx, flags, Mode::empty()).call_on("open", ptmx)?;
    pair_of(master)
}

/// [`open_pair`] of the devpts whose root this directory is.
///
/// It doesn't follow what was mounted over the devpts' `ptmx` by a process that may mount there,
/// because opening such a file could block for ever.
///
/// # Errors
/// `EXDEV`, `ELOOP`: something was mounted over the devpts' `ptmx`. Else those of [`open_pair`].
pub fn open_pair_at(devpts: impl AsFd) -> Result<(OwnedFd, OwnedFd)> {
    let name = Path::new("ptmx");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let master = rustix::fs::openat2(devpts, name, flags, Mode::empty(), within);
    pair_of(master.call_on("open", name)?)
}

/// The master with its slave.
fn pair_of(master: OwnedFd) -> Result<(OwnedFd, OwnedFd)> {
    rustix::pty::unlockpt(&master).call("ioctl(TIOCSPTLCK)")?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).call("ioctl(TIOCGPTPEER)")?;
    Ok((master, slave))
}

/// Whether it is a terminal.
pub fn is_terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd)
}

/// A terminal's size.
///
/// # Errors
/// `ENOTTY`: no terminal.
pub fn size(terminal: impl AsFd) -> Result<Size> {
    let size = rustix::termios::tcgetwinsize(terminal).call("ioctl(TIOCGWINSZ)")?;
    Ok(Size {
        columns: size.ws_col,
        rows: size.ws_row,
    })
}

/// Sets a terminal's size; its foreground process group gets `SIGWINCH` where it changed.
///
/// # Errors
/// `ENOTTY`: no terminal.
pub fn set_size(terminal: impl AsFd, size: Size) -> Result<()> {
    let size = Winsize {
        ws_col: size.columns,
        ws_row: size.rows,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(terminal, size).call("ioctl(TIOCSWINSZ)")
}

/// Makes it the controlling terminal of the calling session leader, which has none yet.
///
/// # Errors
/// `EPERM`: the caller is no session leader, has a controlling terminal already, or this one is
/// another session's. `ENOTTY`: no terminal.
pub fn make_controlling(terminal: impl AsFd) -> Result<()> {
    rustix::process::ioctl_tiocsctty(terminal).call("ioctl(TIOCSCTTY)")
}

/// The same of a terminal that may be another session's: that loses it.
///
/// # Errors
/// `EPERM`: the caller is no session leader, has a controlling terminal already, or lacks
/// `CAP_SYS_ADMIN`. `ENOTTY`: no terminal.
pub fn take_controlling(terminal: impl AsFd) -> Result<()> {
    with_number(terminal, libc::TIOCSCTTY, 1).call("ioctl(TIOCSCTTY)")
}

/// Hangs up: a process that has it open reads its end from then on and can't write; its session
/// gets `SIGHUP`. A process that opens it anew has it.
///
/// # Errors
/// `EPERM`: the caller lacks `CAP_SYS_ADMIN`. `ENOTTY`: no terminal.
pub fn hang_up(terminal: impl AsFd) -> Result<()> {
    const TIOCVHANGUP: libc::Ioctl = 0x5437;
    with_number(terminal, TIOCVHANGUP, 0).call("ioctl(TIOCVHANGUP)")
}

/// Makes a terminal what a login expects, whatever a program has left: lines are edited and echoed,
/// no process has it for itself, a virtual console shows text.
///
/// # Errors
/// `ENOTTY`: no terminal. `EIO`: it has hung up.
pub fn reset(terminal: impl AsFd) -> Result<()> {
    const KDSETMODE: libc::Ioctl = 0x4B3A;
    const KD_TEXT: libc::c_int = 0;
    // Of other terminals than virtual consoles the second means nothing.
    let _ = with_number(&terminal, libc::TIOCNXCL, 0);
    let _ = with_number(&terminal, KDSETMODE, KD_TEXT);
    let mut settings = rustix::termios::tcgetattr(&terminal).call("tcgetattr")?;
    sane(&mut settings);
    rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &settings).call("tcsetattr")?;
    // What was typed for a program that is gone is for no other.
    let _ = rustix::termios::tcflush(&terminal, rustix::termios::QueueSelector::IFlush);
    Ok(())
}

/// As `stty sane` has it; speed and size of characters stay.
fn sane(settings: &mut Termios) {
    use rustix::termios::{ControlModes, InputModes, LocalModes, OutputModes, SpecialCodeIndex};
    let input = InputModes::IGNBRK
        | InputModes::BRKINT
        | InputModes::ISTRIP
        | InputModes::INLCR
        | InputModes::IGNCR
        | InputModes::IUCLC;
    settings.input_modes -= input;
    settings.input_modes |= InputModes::ICRNL | InputModes::IMAXBEL | InputModes::IUTF8;
    settings.output_modes |= OutputModes::ONLCR | OutputModes::OPOST;
    settings.control_modes |= ControlModes::CREAD;
    settings.local_modes = LocalModes::ISIG
        | LocalModes::ICANON
        | LocalModes::IEXTEN
        | LocalModes::ECHO
        | LocalModes::ECHOE
        | LocalModes::ECHOK
        | LocalModes::ECHOCTL
        | LocalModes::ECHOKE;
    for (code, value) in [
        (SpecialCodeIndex::VINTR, 3),
        (SpecialCodeIndex::VQUIT, 28),
        (SpecialCodeIndex::VERASE, 127),
        (SpecialCodeIndex::VKILL, 21),
        (SpecialCodeIndex::VEOF, 4),
        (SpecialCodeIndex::VSTART, 17),
        (SpecialCodeIndex::VSTOP, 19),
        (SpecialCodeIndex::VSUSP, 26),
        (SpecialCodeIndex::VLNEXT, 22),
        (SpecialCodeIndex::VWERASE, 23),
        (SpecialCodeIndex::VREPRINT, 18),
        (SpecialCodeIndex::VEOL, 0),
        (SpecialCodeIndex::VEOL2, 0),
        (SpecialCodeIndex::VTIME, 0),
        (SpecialCodeIndex::VMIN, 1),
    ] {
        settings.special_codes[code] = value;
    }
}

/// Gives a virtual console back to the kernel, by any other one; with it goes what it shows.
///
/// # Errors
/// `EBUSY`: it is shown, or a process has it open. `ENOTTY`: no virtual console.
pub fn give_back(console: impl AsFd, number: u16) -> Result<()> {
    const VT_DISALLOCATE: libc::Ioctl = 0x5608;
    with_number(console, VT_DISALLOCATE, number.into()).call("ioctl(VT_DISALLOCATE)")
}

/// Requests that take a number.
fn with_number(
    terminal: impl AsFd,
    request: libc::Ioctl,
    number: libc::c_int,
) -> std::result::Result<(), rustix::io::Errno> {
    let fd = terminal.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and these requests take a number by value: the kernel reads
    // and writes no memory of ours.
    match unsafe { libc::ioctl(fd, request, number) } {
        0.. => Ok(()),
        _ => Err(
            rustix::io::Errno::from_io_error(&std::io::Error::last_os_error())
                .unwrap_or(rustix::io::Errno::IO),
        ),
    }
}

/// A terminal's settings, to be restored.
#[derive(Clone, Debug)]
pub struct Settings(Termios);

/// Turns off echo, line editing, signal characters and output translation; returns the settings
/// before, for [`restore`].
///
/// # Errors
/// `ENOTTY`: no terminal. `EIO`: the caller is in the background, in an orphaned process group.
pub fn make_raw(terminal: impl AsFd) -> Result<Settings> {
    let before = rustix::termios::tcgetattr(&terminal).call("tcgetattr")?;
    let mut raw = before.clone();
    raw.make_raw();
    rustix::termios::tcsetattr(&terminal, OptionalActions::Flush, &raw).call("tcsetattr")?;
    Ok(Settings(before))
}

/// Leaves a newline that is written a newline: what moves a terminal's bytes to another terminal,
/// or to a file, has it translated there or not at all.
///
/// # Errors
/// `ENOTTY`: no terminal.
pub fn keep_newlines(terminal: impl AsFd) -> Result<()> {
    let mut settings = rustix::termios::tcgetattr(&terminal).call("tcgetattr")?;
    settings.output_modes &= !rustix::termios::OutputModes::ONLCR;
    rustix::termios::tcsetattr(terminal, OptionalActions::Now, &settings).call("tcsetattr")
}

/// Sets what [`make_raw`] has found.
///
/// # Errors
/// `ENOTTY`: no terminal. `EIO`: the terminal has hung up.
pub fn restore(terminal: impl AsFd, settings: &Settings) -> Result<()> {
    rustix::termios::tcsetattr(terminal, OptionalActions::Now, &settings.0).call("tcsetattr")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn a_terminal_is_what_a_login_expects_again() {
        let (master, slave) = open_pair().unwrap();
        make_raw(&slave).unwrap();
        reset(&slave).unwrap();
        let mut master = File::from(master);
        master.write_all(b"a\n").unwrap();
        let mut echo = [0; 3];
        master.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"a\r\n");
        let error = give_back(&slave, 63).unwrap_err();
        assert!(error.is(libc::ENOTTY), "{error}");
        // Who has it open reads its end.
        if hang_up(&slave).is_ok() {
            assert_eq!(File::from(slave).read(&mut [0; 8]).unwrap(), 0);
        }
    }

    #[test]
    fn a_pair_echoes_until_it_is_raw() {
        let (master, slave) = open_pair().unwrap();
        assert!(is_terminal(&slave));
        let size = Size {
            columns: 99,
            rows: 33,
        };
        set_size(&master, size).unwrap();
        assert_eq!(super::size(&slave).unwrap(), size);
        let mut master = File::from(master);
        master.write_all(b"a\n").unwrap();
        let mut echo = [0; 3];
        master.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"a\r\n");
        make_raw(&slave).unwrap();
        let mut slave = File::from(slave);
        slave.write_all(b"b\n").unwrap();
        let mut plain = [0; 2];
        master.read_exact(&mut plain).unwrap();
        assert_eq!(&plain, b"b\n");
    }
}
