// SPDX-License-Identifier: Apache-2.0
//! Output that leads to an attacher and to no log (`Stream::Attached`): the read ends of its pipes,
//! from the making of the pipes until the attacher takes them, which is once.
//!
//! Nothing of it is kept: who reads slowly holds the program up, as at any pipe. Where no attacher
//! comes in time, the attacher goes away or the daemon ends, the ends are closed, and the program
//! learns by SIGPIPE; so they are neither in the executable's record nor with its cell-init.
//! `cell::start` offers, `attach` takes, and hands what it took to the API.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::observe::Stream;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::attach::End;
use crate::attached::ATTACH_WITHIN;
use crate::watched::watch;

/// How many executables of one tenant may wait for their attachers. Each wait is two descriptors of
/// the daemon's, and [`ATTACH_WITHIN`] at most.
const MOST_OFFERED: usize = 64;
/// The most that is read at a time, in bytes: what a pipe holds.
const PIECE: usize = 64 << 10;

/// The read ends of standard output and standard error, where they lead to an attacher.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

impl Ends {
    fn is_empty(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }
}

/// The ends that wait for their attachers.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    waiting: Mutex<HashMap<Uid, (Tenant, Ends)>>,
}

impl Offered {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, (Tenant, Ends)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the ends of an executable that is about to be started; none, where it has none.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`: too many of the tenant's wait.
    pub(crate) fn offer(&self, tenant: &Tenant, uid: Uid, ends: Ends) -> Result<(), Error> {
        if ends.is_empty() {
            return Ok(());
        }
        let mut waiting = self.lock();
        let has = waiting.values().filter(|(owner, _)| owner == tenant);
        if has.count() >= MOST_OFFERED {
            let message = format!(
                "{MOST_OFFERED} executables of the tenant {tenant} wait for who attaches to their \
                 output"
            );
            return Err(Error::new(Reason::LimitExceeded, message)
                .hint("attach to them, or try again when they have waited in vain")
                .retry_after(ATTACH_WITHIN));
        }
        waiting.insert(uid, (tenant.clone(), ends));
        Ok(())
    }

    /// It runs: from now on they wait for so long.
    pub(crate) fn began(self: &Arc<Self>, uid: Uid) {
        if self.lock().contains_key(&uid) {
            let offered = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(ATTACH_WITHIN).await;
                offered.forget(uid);
            });
        }
    }

    /// They are an attacher's from here on.
    pub(crate) fn take(&self, uid: Uid) -> Option<Ends> {
        self.lock().remove(&uid).map(|(_, ends)| ends)
    }

    /// It was not started, or is no more.
    pub(crate) fn forget(&self, uid: Uid) {
        self.take(uid);
    }
}

/// Output as its attacher reads it. Dropped, it is closed.
#[derive(Debug)]
pub struct Direct {
    stdout: Option<AsyncFd<OwnedFd>>,
    stderr: Option<AsyncFd<OwnedFd>>,
    /// Bytes so far, of both.
    offset: u64,
    /// The executable has ended: what is in the pipes now is the last of it, whoever may still
    /// have them open.
    is_over: bool,
}

/// A piece of it.
pub struct Piece {
    /// Which of the two.
    pub stream: Stream,
    /// At most 64 KiB.
    pub data: Vec<u8>,
    /// Of its first byte, in the whole.
    pub offset: u64,
}

impl Direct {
    pub(crate) fn new(ends: Ends) -> Result<Self, Error> {
        let watched = |end: Option<OwnedFd>| {
            let end = end.map(|end| watch(end, Interest::READABLE)).transpose();
            end.map_err(|e| Error::internal(format!("the output of the executable: {e}")))
        };
        Ok(Self {
            stdout: watched(ends.stdout)?,
            stderr: watched(ends.stderr)?,
            offset: 0,
            is_over: false,
        })
    }

    /// The next piece, as soon as there is one; none at the end. May be dropped while waiting.
    ///
    /// # Errors
    /// What the kernel says of the pipe; what [`End::wait`] says.
    pub async fn next(&mut self, end: &mut End) -> Result<Option<Piece>, Error> {
        loop {
            let (stream, came) = match self.is_over {
                true => match self.left() {
                    Some(last) => last,
                    None => return Ok(None),
                },
                false if self.stdout.is_none() && self.stderr.is_none() => return Ok(None),
                false => tokio::select! {
                    came = read(self.stdout.as_ref()) => (Stream::Stdout, came),
                    came = read(self.stderr.as_ref()) => (Stream::Stderr, came),
                    ended = end.wait() => {
                        ended?;
                        self.is_over = true;
                        continue;
                    }
                },
            };
            let failed = |e: io::Error| Error::internal(format!("the output: {e}"));
            let data = came.map_err(failed)?;
            if data.is_empty() {
                self.close(stream);
                continue;
            }
            let offset = self.offset;
            self.offset += data.len() as u64;
            return Ok(Some(Piece {
                stream,
                data,
                offset,
            }));
        }
    }

    /// What one of them holds, without waiting; nothing (its end) where that is nothing.
    fn left(&self) -> Option<(Stream, io::Result<Vec<u8>>)> {
        let all = [
            (Stream::Stdout, &self.stdout),
            (Stream::Stderr, &self.stderr),
        ];
        let (stream, end) = all.into_iter().find(|(_, end)| end.is_some())?;
        let piece = match piece(end.as_ref()?.get_ref()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            piece => piece,
        };
        Some((stream, piece))
    }

    fn close(&mut self, stream: Stream) {
        match stream {
            Stream::Stderr => self.stderr = None,
            _ => self.stdout = None,
        }
    }
}

/// Waits for a piece; for ever where it is closed.
async fn read(end: Option<&AsyncFd<OwnedFd>>) -> io::Result<Vec<u8>> {
    let Some(end) = end else {
        return pending().await;
    };
    loop {
        let mut ready = end.readable().await?;
        if let Ok(came) = ready.try_io(|end| piece(end.get_ref())) {
            return came;
        }
    }
}

fn piece(end: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut data = vec![0; PIECE];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(end, &mut data))?;
    data.truncate(count);
    data.shrink_to_fit();
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Ends {
        let (read, _) = io::pipe().unwrap();
        Ends {
            stdout: Some(read.into()),
            stderr: None,
        }
    }

    fn uid(number: u8) -> Uid {
        Uid([number; 16])
    }

    #[tokio::test]
    async fn what_is_offered_is_taken_once_and_waits_for_a_bounded_time() {
        let offered = Arc::new(Offered::default());
        let acme: Tenant = "acme".parse().unwrap();
        for number in 0..2 {
            offered.offer(&acme, uid(number), ends()).unwrap();
            offered.began(uid(number));
        }
        assert!(offered.take(uid(0)).is_some());
        assert!(offered.take(uid(0)).is_none());
        tokio::time::sleep(ATTACH_WITHIN * 2).await;
        assert!(offered.take(uid(1)).is_none());
    }

    #[test]
    fn a_tenant_that_never_attaches_takes_no_place_of_another() {
        let offered = Offered::default();
        let (evil, acme) = ("evil".parse().unwrap(), "acme".parse().unwrap());
        let most = u8::try_from(MOST_OFFERED).unwrap();
        for number in 0..most {
            offered.offer(&evil, uid(number), ends()).unwrap();
        }
        let refused = offered.offer(&evil, uid(most), ends()).unwrap_err();
        assert_eq!(refused.reason, Reason::LimitExceeded);
        offered.offer(&acme, uid(most), ends()).unwrap();
        offered.forget(uid(0));
        offered.offer(&evil, uid(0), ends()).unwrap();
        // Nothing to be read is nothing to wait.
        offered.offer(&evil, uid(100), Ends::default()).unwrap();
    }
}
