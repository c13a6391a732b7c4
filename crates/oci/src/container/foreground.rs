// SPDX-License-Identifier: Apache-2.0
//! A process that `run` or `exec` stands by: signals are passed on, a terminal's bytes are moved,
//! and its exit is the command's.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use kernel::signal::{self, Signal, SignalFd, SignalSet};
use kernel::tty::{self, Settings};
use kernel::wait::{ExitStatus, Reap, Target};
use kernel::{pidfd, process, seqpacket, wait};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::console::Socket;
use crate::error::{Doing, Result, refuse};

/// A command that stands by: from before the clone, so that no signal is lost.
#[derive(Debug)]
pub(crate) struct Foreground {
    signals: SignalFd,
    terminal: Option<(UnixStream, UnixStream)>,
}

impl Foreground {
    /// Takes the signals; with a terminal, its master will come here.
    pub(crate) fn begin(terminal: bool) -> Result<Foreground> {
        signal::set_mask(SignalSet::ALL)?;
        let terminal = terminal
            .then(UnixStream::pair)
            .transpose()
            .doing("socketpair")?;
        Ok(Foreground {
            signals: SignalFd::new(SignalSet::ALL)?,
            terminal,
        })
    }

    /// The socket for the process's terminal.
    pub(crate) fn console(&self) -> Result<Option<Socket>> {
        let theirs = self.terminal.as_ref().map(|(_, theirs)| theirs.try_clone());
        let stream = theirs.transpose().doing("dup")?;
        Ok(stream.map(|stream| Socket {
            stream,
            relayed: true,
        }))
    }

    /// Stands by until the process has ended; answers its exit code, 128 and the signal's number
    /// where a signal has ended it.
    pub(crate) fn stand_by(self, process: &OwnedFd) -> Result<u8> {
        let relay = match &self.terminal {
            Some((ours, _)) => Some(Relay::begin(ours)?),
            None => None,
        };
        loop {
            self.step(process, relay.as_ref())?;
            if let Some(exit) = wait::try_wait(Target::PidFd(process.as_fd()), Reap::Yes)? {
                if let Some(relay) = &relay {
                    relay.drain();
                }
                return Ok(match exit.status {
                    ExitStatus::Code(code) => code,
                    ExitStatus::Signal { signal, .. } => 128 + signal,
                });
            }
            self.reap_others(process)?;
        }
    }

    /// Waits for one thing to happen, and sees to it.
    fn step(&self, process: &OwnedFd, relay: Option<&Relay>) -> Result<()> {
        let mut fds = vec![
            PollFd::new(process, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        if let Some(relay) = relay {
            // Once the last slave is closed, nothing comes but this news, again and again.
            let wanted = match relay.output_ended.get() {
                true => PollFd::new(process, PollFlags::IN),
                false => PollFd::new(&relay.master, PollFlags::IN),
            };
            fds.push(wanted);
            if !relay.input_ended.get() {
                fds.push(PollFd::from_borrowed_fd(
                    rustix::stdio::stdin(),
                    PollFlags::IN,
                ));
            }
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).doing("poll"),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if let Some(relay) = relay {
            if ready.get(2) == Some(&true) && !relay.output_ended.get() {
                relay.output_ended.set(!relay.output()?);
            }
            if ready.get(3) == Some(&true) {
                relay.input()?;
            }
        }
        while let Some(info) = self.signals.next()? {
            match info.signal {
                Signal::CHLD => {}
                Signal::WINCH if relay.is_some() => relay.into_iter().for_each(Relay::resize),
                // It may have ended meanwhile.
                other => drop(pidfd::send_signal(process, other)),
            }
        }
        Ok(())
    }

    /// As a subreaper it gets what the container leaves behind.
    fn reap_others(&self, process: &OwnedFd) -> Result<()> {
        let own = pidfd::pid_of(process).unwrap_or(0);
        loop {
            match wait::try_wait(Target::Any, Reap::No) {
                Ok(Some(exit)) if exit.pid != own => {
                    wait::try_wait(Target::Pid(exit.pid), Reap::Yes)?;
                }
                Ok(_) => return Ok(()),
                Err(error) if error.is(Errno::CHILD.raw_os_error()) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A terminal whose bytes go to and fro between the container and this process's streams.
struct Relay {
    master: OwnedFd,
    before: Option<Settings>,
    input_ended: Cell<bool>,
    output_ended: Cell<bool>,
}

impl Relay {
    fn begin(socket: &UnixStream) -> Result<Relay> {
        let packet = seqpacket::receive(socket, &mut [0; 64]);
        let Ok(Some(packet)) = packet else {
            return refuse("the container's process sent no terminal");
        };
        let Some(master) = packet.fds.into_iter().next() else {
            return refuse("the container's process sent no terminal");
        };
        let stdin = rustix::stdio::stdin();
        let before = match tty::is_terminal(stdin) {
            true => Some(tty::make_raw(stdin)?),
            false => None,
        };
        let relay = Relay {
            master,
            before,
            input_ended: Cell::new(false),
            output_ended: Cell::new(false),
        };
        relay.resize();
        Ok(relay)
    }

    /// The size of this process's own terminal, where it has one.
    fn resize(&self) {
        if let Ok(size) = tty::size(rustix::stdio::stdin()) {
            let _ = tty::set_size(&self.master, size);
        }
    }

    /// From the container; its end is the end of the terminal, which the process's end follows.
    fn output(&self) -> Result<bool> {
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(&self.master, &mut buffer) {
            Ok(0) | Err(Errno::IO) => Ok(false),
            Ok(length) => {
                write_all(
                    rustix::stdio::stdout(),
                    buffer.get(..length).unwrap_or_default(),
                )?;
                Ok(true)
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(true),
            Err(errno) => Err(errno).doing("read the terminal"),
        }
    }

    fn input(&self) -> Result<()> {
        let mut buffer = [0; 4096];
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Ok(0) => {
                self.input_ended.set(true);
                // What Ctrl-D is: the end of the input, for a terminal that has one.
                write_all(self.master.as_fd(), &[4])
            }
            Ok(length) => write_all(
                self.master.as_fd(),
                buffer.get(..length).unwrap_or_default(),
            ),
            Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno).doing("read the standard input"),
        }
    }

    /// What the process has left behind in the terminal.
    fn drain(&self) {
        loop {
            let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&rustix::event::Timespec::default()));
            let readable = fds.iter().any(|fd| fd.revents().contains(PollFlags::IN));
            if !matches!(ready, Ok(1)) || !readable || !self.output().unwrap_or(false) {
                return;
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tty::restore(rustix::stdio::stdin(), before);
        }
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("master", &self.master)
            .finish_non_exhaustive()
    }
}

fn write_all(to: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&to, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).doing("write"),
        }
    }
    Ok(())
}

/// Makes this command the parent of what the container's process leaves behind.
pub(crate) fn adopt() -> Result<()> {
    Ok(process::set_child_subreaper(true)?)
}
