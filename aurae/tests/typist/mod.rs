// SPDX-License-Identifier: Apache-2.0
//! A user at a terminal: a pseudo-terminal that a test types into, and reads from what a program
//! shows there. For the tests of the prompt and of what is drawn live.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// For a busy machine; nothing waits this long where all is well.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A user at a terminal.
pub(crate) struct Typist {
    terminal: File,
    shown: Receiver<Vec<u8>>,
    /// What was shown since the last thing that was waited for.
    rest: String,
    child: Child,
}

impl Typist {
    /// Sits down before a program, which has no environment but what it was given.
    pub(crate) fn start(program: &Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let side = || -> Stdio {
            let file = File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap());
            OwnedFd::from(file.unwrap()).into()
        };
        // The terminal must be the session's own for Ctrl-C to be a signal.
        let mut session = Command::new("setsid");
        session.args(["--ctty", "--wait"]);
        session.arg(program.get_program()).args(program.get_args());
        if let Some(folder) = program.get_current_dir() {
            session.current_dir(folder);
        }
        session.env_clear();
        session.env("PATH", std::env::var_os("PATH").unwrap());
        session.envs(
            program
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        );
        session.envs([("TERM", "xterm"), ("NO_COLOR", "1")]);
        session.stdin(side()).stdout(side()).stderr(side());
        let child = session.spawn().unwrap();
        let terminal = File::from(terminal);
        let mut reader = terminal.try_clone().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // A terminal without its other side is an error, which ends this.
            while let Ok(read) = reader.read(&mut chunk) {
                if read == 0 || send.send(chunk[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            terminal,
            shown,
            rest: String::new(),
            child,
        }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until something is shown.
    pub(crate) fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.rest.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.rest += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("waited for {text:?} and saw {:?}", self.rest),
            }
        }
        let at = self.rest.find(text).unwrap() + text.len();
        self.rest.drain(..at);
    }

    /// Waits for the program's end; its exit status.
    pub(crate) fn leaves(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}
