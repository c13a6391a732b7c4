// SPDX-License-Identifier: Apache-2.0
//! The daemon's side of standard input: hands it to one attacher at a time, and closes it for good.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::error::{Error, Reason};
use model::name::Uid;

use super::executable::Executable;
use super::executables::Executables;

impl Executables {
    /// The write end, unless an attacher has it. Where the attacher went away meanwhile, it goes
    /// with the answer.
    pub(super) fn input(&self, uid: Uid) -> Result<Arc<OwnedFd>, Error> {
        input_of(self.get(&uid))
    }

    /// Drops our reference. Once the cell-init has dropped its own, the executable reads the end of
    /// file.
    pub(super) fn close_input(&mut self, uid: Uid) {
        if let Some(executable) = self.get_mut(&uid) {
            executable.input = None;
        }
    }
}

fn input_of(executable: Option<&Executable>) -> Result<Arc<OwnedFd>, Error> {
    let Some(executable) = executable else {
        return Err(Error::new(Reason::WrongState, "the executable has ended"));
    };
    let path = executable.record.meta.path.to_string();
    let Some(input) = &executable.input else {
        let message = format!("the standard input of {path} is closed");
        return Err(Error::new(Reason::WrongState, message)
            .about("executable", path)
            .hint("run it with `stdin` (aurae run -i) to be able to write to it"));
    };
    if Arc::strong_count(input) > 1 {
        let message = format!("another client is attached to the standard input of {path}");
        return Err(Error::new(Reason::StdinTaken, message)
            .about("executable", path)
            .hint("attach without standard input, or wait until they detach"));
    }
    Ok(Arc::clone(input))
}
