// SPDX-License-Identifier: Apache-2.0
//! The owner's side of standard input: hands it to one attacher at a time, and closes it for good.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use init::protocol::CellRequest;
use model::error::{Error, Reason};
use model::name::Uid;

use super::Reply;
use super::executable::Executable;
use super::owner::{Call, Owner};
use crate::record;

impl Owner {
    /// Answers with the write end, unless an attacher has it.
    pub(super) fn take_input(&self, uid: Uid, reply: Reply<Arc<OwnedFd>>) {
        // Fails where the attacher went away: the reference goes with the answer.
        let _ = reply.send(input_of(self.executables.get(&uid)));
    }

    /// Drops our reference and has the cell-init drop its own: the executable reads the end of
    /// file.
    pub(super) fn close_input(&mut self, uid: Uid, reply: Reply<()>) {
        if let Some(executable) = self.executables.get_mut(&uid) {
            executable.input = None;
        }
        let call = Call::Noted("closing standard input");
        let uid = record::wire(uid);
        self.call(call, Vec::new(), |request| CellRequest::CloseStdin {
            request,
            uid,
        });
        let _ = reply.send(Ok(()));
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
