// SPDX-License-Identifier: Apache-2.0
//! Being attached to an executable: who it is, how it will have ended, and its standard input,
//! which one attacher has at a time. Its output is in the log, which attachers read as everybody
//! does; or it leads to the one that takes it here (`direct`).
//!
//! The input is the descriptor itself. Its owner (`cell::owner`) keeps one reference; a second one
//! is the attached client, and a third is refused. So an attacher that is dropped, however it went,
//! gives it back.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kernel::tty;
use model::error::{Error, Reason};
use model::executable::Terminal;
use model::name::Uid;
use model::request::{AttachFrom, AttachStart};
use model::status::{ExecutableStatus, Object};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::watched::watch;
use tokio::sync::watch;

use super::Runtime;
use super::api::has_ended;
use super::attached::Counted;
use super::cell::{CellHandle, Request};
use super::direct::Direct;
use identity::permit::Permit;

/// What a terminal takes for the end of its input (`VEOF`, control-D).
const END_OF_INPUT: &[u8] = &[4];

/// One attachment.
pub struct Attachment {
    /// As it is now.
    pub object: Arc<Object>,
    /// Its end.
    pub end: End,
    /// Where it was asked for.
    pub input: Option<Input>,
    /// Where its output leads to its attacher and not to the log.
    pub output: Option<Direct>,
    /// Of an executable that removes itself: keeps its record and its log until it is dropped.
    pub kept: Option<Kept>,
}

/// Keeps what removes itself, as long as a client is attached to it.
#[derive(Debug)]
pub struct Kept {
    _counted: Counted,
}

/// The end of a run, to be waited for.
pub struct End {
    object: Arc<Object>,
    ended: watch::Receiver<Option<Arc<Object>>>,
}

impl End {
    /// The object as it ended. May be dropped while waiting.
    ///
    /// # Errors
    /// `NOT_FOUND` where the node forgot it before it told.
    pub async fn wait(&mut self) -> Result<Arc<Object>, Error> {
        let ended = self.ended.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|ended| ended.clone());
        ended.ok_or_else(|| self.object.meta().to_ref().not_found())
    }
}

/// An executable's standard input. Dropped, it is there for the next attacher.
pub struct Input {
    /// `None` once it was closed.
    end: Option<AsyncFd<Arc<OwnedFd>>>,
    terminal: bool,
    owner: CellHandle,
    uid: Uid,
}

impl Input {
    fn new(end: Arc<OwnedFd>, terminal: bool, owner: CellHandle, uid: Uid) -> Result<Self, Error> {
        let failed = |e: std::io::Error| Error::internal(format!("standard input: {e}"));
        rustix::io::ioctl_fionbio(&*end, true).map_err(|e| failed(e.into()))?;
        let end = watch(end, Interest::READABLE | Interest::WRITABLE).map_err(failed)?;
        Ok(Self {
            end: Some(end),
            terminal,
            owner,
            uid,
        })
    }

    /// Writes all of it, as fast as the executable reads. What was written when this is dropped
    /// half-way stays written.
    ///
    /// # Errors
    /// `WRONG_STATE`: it was closed, or no process reads it.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let Some(end) = &self.end else {
            return Err(Error::new(Reason::WrongState, "standard input was closed"));
        };
        let gone = |e: std::io::Error| {
            let errno = e.raw_os_error().unwrap_or_default();
            Error::new(Reason::WrongState, format!("standard input: {e}")).errno(errno)
        };
        while !bytes.is_empty() {
            let mut ready = end.writable().await.map_err(gone)?;
            let written = ready.try_io(|end| Ok(rustix::io::write(&**end.get_ref(), bytes)?));
            match written {
                Ok(Ok(count)) => bytes = bytes.get(count..).unwrap_or_default(),
                Ok(Err(e)) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(Err(e)) => return Err(gone(e)),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// No more input: the executable reads the end of file. Of a terminal that is a character.
    ///
    /// # Errors
    /// As [`Input::write`].
    pub async fn close(&mut self) -> Result<(), Error> {
        if self.terminal {
            return self.write(END_OF_INPUT).await;
        }
        if self.end.take().is_none() {
            return Ok(());
        }
        let uid = self.uid;
        self.owner
            .ask(|reply| Request::CloseInput { uid, reply })
            .await
    }

    /// Tells the terminal's new size; without a terminal there is nothing to tell.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn resize(&self, size: Terminal) -> Result<(), Error> {
        let Some(end) = self.end.as_ref().filter(|_| self.terminal) else {
            return Ok(());
        };
        let size = tty::Size {
            rows: size.rows,
            columns: size.columns,
        };
        let set = tty::set_size(&**end.get_ref(), size);
        set.map_err(|e| Error::internal(format!("the terminal's size: {e}")).errno(e.errno()))
    }
}

impl Runtime {
    /// Attaches to an executable, also to one that has ended.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` (a cell; its input, where it runs and has none), `STDIN_TAKEN`.
    pub async fn attach(&self, permit: Permit, start: &AttachStart) -> Result<Attachment, Error> {
        permit.demand_tenant(&start.target.tenant)?;
        let object = self.shared.index.get(&start.target)?;
        let Object::Executable(executable) = &*object else {
            let message = format!(
                "{} is a cell: only executables are attached to",
                start.target.path
            );
            return Err(Error::new(Reason::WrongState, message));
        };
        let is_direct = executable.effective.streams.lead_to_attacher();
        if start.stdin || is_direct {
            self.check_place(&permit, &executable.meta.tenant, &executable.meta.path)?;
        }
        let uid = executable.meta.uid;
        let ended = self
            .shared
            .index
            .end_of(uid)
            .ok_or_else(|| start.target.not_found())?;
        let input = match start.stdin {
            false => None,
            true => match self.take_input(&object).await {
                Ok((end, owner)) => {
                    let terminal = executable.effective.terminal.is_some();
                    Some(Input::new(end, terminal, owner, uid)?)
                }
                // It was quicker than its attacher, who learns by its exit.
                Err(error) if error.reason == Reason::WrongState && ended.borrow().is_some() => {
                    None
                }
                Err(error) => return Err(error),
            },
        };
        // Last: what fails before leaves it to who comes next.
        let output = is_direct.then(|| self.take_output(executable, start.from));
        let output = output.transpose()?;
        let kept = executable.effective.auto_remove.then(|| Kept {
            _counted: self.shared.attachments.count(uid),
        });
        // It may have removed itself before it was counted.
        if self.shared.index.by_uid(uid).is_none() {
            self.shared.attachments.forget(uid);
            return Err(start.target.not_found());
        }
        let end = End {
            object: Arc::clone(&object),
            ended,
        };
        Ok(Attachment {
            object,
            end,
            input,
            output,
            kept,
        })
    }

    fn take_output(&self, of: &ExecutableStatus, from: AttachFrom) -> Result<Direct, Error> {
        let path = of.meta.path.to_string();
        if matches!(from, AttachFrom::Offset(offset) if offset > 0) {
            let problem = "of output that no log has is its beginning, 0";
            return Err(Error::invalid("start.from_offset", problem));
        }
        let Some(ends) = self.shared.offered.take(of.meta.uid) else {
            let message = format!(
                "the output of {path} was the first attacher's, or none came in time, and no log \
                 has it"
            );
            return Err(Error::new(Reason::WrongState, message)
                .about("executable", path)
                .hint("run it anew"));
        };
        Direct::new(ends)
    }

    async fn take_input(&self, object: &Object) -> Result<(Arc<OwnedFd>, CellHandle), Error> {
        let owner = self.owner_of(object).ok_or_else(|| has_ended(object))?;
        let uid = object.meta().uid;
        let end = owner.ask(|reply| Request::TakeInput { uid, reply }).await?;
        Ok((end, owner))
    }
}
