// SPDX-License-Identifier: Apache-2.0
//! The client's terminal while a workload's is shown in it: raw, and always restored afterwards.

use std::io::{Stdin, stdin};

use api::runtime::v0::Terminal;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::Failure;

/// The terminal's size; `None` where there is no terminal.
pub(crate) fn size() -> Option<Terminal> {
    let size = tcgetwinsize(std::io::stdout())
        .or_else(|_| tcgetwinsize(stdin()))
        .ok()?;
    Some(Terminal {
        rows: size.ws_row.into(),
        columns: size.ws_col.into(),
    })
}

/// Not the line editor's while it lives: every key goes to the workload, Ctrl-C too.
pub(crate) struct RawMode {
    stdin: Stdin,
    before: Termios,
}

impl RawMode {
    /// Makes standard input raw.
    pub(crate) fn enter() -> Result<Self, Failure> {
        Self::with(Termios::make_raw)
    }

    /// Has each key come at once, and not be shown. Ctrl-C stays what it is.
    pub(crate) fn keys() -> Result<Self, Failure> {
        let modes = LocalModes::ICANON | LocalModes::ECHO;
        Self::with(|terminal| terminal.local_modes.remove(modes))
    }

    fn with(change: impl FnOnce(&mut Termios)) -> Result<Self, Failure> {
        let fail =
            |problem: rustix::io::Errno| Failure::new(format!("can't set the terminal: {problem}"));
        let stdin = stdin();
        let before = tcgetattr(&stdin).map_err(fail)?;
        let mut after = before.clone();
        change(&mut after);
        tcsetattr(&stdin, OptionalActions::Now, &after).map_err(fail)?;
        Ok(Self { stdin, before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Where the terminal is gone, there is nothing to put back.
        let _ = tcsetattr(&self.stdin, OptionalActions::Now, &self.before);
    }
}
