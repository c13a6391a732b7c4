// SPDX-License-Identifier: Apache-2.0
//! The conversation with a cell-init, over `cells/UID.sock`, and its handshake. The peer counts as
//! hostile.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use init::protocol::codec::{CodecError, Packet, encode_sealed};
use init::protocol::{
    CellEvent, CellRequest, MAX_PACKET, MAX_RECORD, MAX_SEALED, MAX_WORKLOADS, Record, Stdio, Uid,
    VERSION, WorkloadState,
};
use kernel::sealed::{self, Sealed};
use kernel::seqpacket::{self, Mode};
use rustix::io::Errno;
use tokio::time::timeout;

use super::{Conversation, HANDSHAKE, Link, LinkError, Packed, Received, fds};

/// The most that the records of one cell's workloads take together, in bytes; inits begin nothing
/// at three quarters of it.
const MAX_RECORDS: usize = MAX_WORKLOADS * MAX_RECORD;

/// Marks the conversation.
pub(crate) struct ToCell;

impl Conversation for ToCell {
    type Request = CellRequest;
    type Event = CellEvent;

    /// The start of an executable may be longer than a packet.
    fn pack(request: &CellRequest, mut fds: Vec<OwnedFd>) -> Result<Packed, LinkError> {
        let mut bytes = Vec::new();
        let number = match (request.encode(&mut bytes), request) {
            (Ok(()), _) => return Ok((bytes, fds)),
            (
                Err(CodecError::TooLong {
                    limit: MAX_PACKET, ..
                }),
                CellRequest::Start { request, .. },
            ) => *request,
            (Err(error), _) => return Err(LinkError::TooLarge(error)),
        };
        encode_sealed(request, &mut bytes).map_err(LinkError::TooLarge)?;
        let file = sealed::seal(c"aurae-start", &bytes).map_err(LinkError::Unpacked)?;
        fds.insert(0, file);
        let sealed = CellRequest::Sealed { request: number };
        sealed.encode(&mut bytes).map_err(LinkError::TooLarge)?;
        Ok((bytes, fds))
    }
}

/// The daemon's end of it.
pub(crate) type CellLink = Link<ToCell>;

/// What a cell-init knows: its record and its workloads.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The pid of who answered.
    pub(crate) sender: Option<i32>,
    /// The cell's own record, as it was last put.
    pub(crate) record: Vec<u8>,
    /// Running ones, and ended ones that were not acknowledged.
    pub(crate) workloads: Vec<Kept>,
}

/// A workload that a cell-init keeps, with its descriptors checked.
#[derive(Debug)]
pub(crate) struct Kept {
    /// What the cell-init says of it.
    pub(crate) state: WorkloadState,
    /// Its record, as it was last put.
    pub(crate) record: Vec<u8>,
    /// Its main process; none when it has ended.
    pub(crate) process: fds::Process,
    /// Of that process.
    pub(crate) pidfd: Option<OwnedFd>,
    /// Its output.
    pub(crate) outputs: Outputs,
    /// The write end of its standard input.
    pub(crate) stdin: Option<OwnedFd>,
}

/// Where a workload's output comes out.
#[derive(Debug)]
pub(crate) enum Outputs {
    /// The read ends of its pipes.
    Pipes {
        /// Of standard output.
        stdout: OwnedFd,
        /// Of standard error.
        stderr: OwnedFd,
    },
    /// The master of its terminal, which is its input, too.
    Terminal(OwnedFd),
}

/// Connects to the cell-init that listens at `path` as that of `uid`.
pub(crate) async fn connect(path: &Path, uid: Uid) -> Result<(CellLink, Handshake), LinkError> {
    let conversation = async { welcomed(say_hello(path).await?, uid).await };
    in_time(conversation).await
}

/// A conversation whose first word waits in the socket, for a cell-init that is being created.
pub(crate) struct HelloSent(CellLink);

impl HelloSent {
    /// Connects to the socket at `path` that the cell-init will have. It finds the `Hello` when it
    /// comes, and answers before node-init has said that it is there.
    pub(crate) async fn to(path: &Path) -> Result<Self, LinkError> {
        in_time(say_hello(path)).await.map(Self)
    }

    /// Its answer, as that of `uid`. Call it when the cell-init is known to be there: it has
    /// [`HANDSHAKE`] from now on.
    pub(crate) async fn welcomed(self, uid: Uid) -> Result<(CellLink, Handshake), LinkError> {
        in_time(welcomed(self.0, uid)).await
    }
}

async fn in_time<T>(step: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    timeout(HANDSHAKE, step)
        .await
        .map_err(|_| LinkError::Silent(HANDSHAKE))?
}

async fn say_hello(path: &Path) -> Result<CellLink, LinkError> {
    let mut link = CellLink::new(call(path).await?)?.with_senders()?;
    link.send(&CellRequest::Hello { version: VERSION }, Vec::new())?;
    Ok(link)
}

async fn welcomed(mut link: CellLink, uid: Uid) -> Result<(CellLink, Handshake), LinkError> {
    let welcome = handshake(&mut link, uid).await?;
    Ok((link, welcome))
}

/// A connection that the init may not have accepted yet. Where those of earlier daemons, dead by
/// now, fill its queue, it is asked again: the kernel doesn't say when there is room.
async fn call(path: &Path) -> Result<OwnedFd, LinkError> {
    const AGAIN: Duration = Duration::from_millis(20);
    loop {
        match seqpacket::connect(path, Mode::Nonblocking) {
            Err(error) if error.is(Errno::AGAIN.raw_os_error()) => tokio::time::sleep(AGAIN).await,
            other => return Ok(other?),
        }
    }
}

async fn handshake(link: &mut CellLink, expected: Uid) -> Result<Handshake, LinkError> {
    let mut welcome = link.next().await?;
    let (record, count) = match welcome.event {
        CellEvent::Welcome {
            version: VERSION,
            uid,
            record,
            workloads,
        } if uid == expected => (bytes_of(&record, &mut welcome.fds)?, workloads),
        CellEvent::Welcome { version, uid, .. } => {
            return Err(LinkError::Malformed(format!(
                "a welcome of version {version} from another cell, {uid:?}"
            )));
        }
        CellEvent::Refused { version, reason } => {
            return Err(LinkError::Refused { version, reason });
        }
        other => return Err(out_of_place(&other)),
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MAX_WORKLOADS {
        return Err(LinkError::Malformed(format!("{count} workloads announced")));
    }
    let (mut workloads, mut length) = (Vec::with_capacity(count), 0);
    while workloads.len() < count {
        let kept = kept(link.next().await?)?;
        length += kept.record.len();
        if length > MAX_RECORDS {
            let more = format!("records of more than {MAX_RECORDS} bytes together");
            return Err(LinkError::Malformed(more));
        }
        workloads.push(kept);
    }
    Ok(Handshake {
        sender: welcome.sender,
        record,
        workloads,
    })
}

/// What a record says, which may be beside the packet: its last descriptor.
fn bytes_of(record: &Record, fds: &mut Vec<OwnedFd>) -> Result<Vec<u8>, LinkError> {
    match record {
        Record::Here(bytes) => Ok(bytes.clone()),
        Record::Beside => {
            let missing = || LinkError::Malformed("a long record is missing".into());
            let file = fds.pop().ok_or_else(missing)?;
            let unreadable = |e| LinkError::Malformed(format!("a long record: {e}"));
            Ok(Sealed::open(file, MAX_SEALED).map_err(unreadable)?.to_vec())
        }
    }
}

fn kept(mut received: Received<CellEvent>) -> Result<Kept, LinkError> {
    let CellEvent::Workload(state) = received.event else {
        return Err(out_of_place(&received.event));
    };
    let record = bytes_of(&state.record, &mut received.fds)?;
    let mut given = received.fds.into_iter();
    if state.has_process && state.exit.is_some() {
        return Err(LinkError::Malformed("a process that has ended".into()));
    }
    let (pidfd, process) = match state.has_process {
        false => (None, fds::Process::default()),
        true => fds::pidfd(given.next()).map(|(pidfd, process)| (Some(pidfd), process))?,
    };
    let outputs = match state.stdio {
        Stdio::Pipes => Outputs::Pipes {
            stdout: fds::pipe(given.next(), "standard output's pipe")?,
            stderr: fds::pipe(given.next(), "standard error's pipe")?,
        },
        Stdio::Terminal { .. } => Outputs::Terminal(fds::terminal(given.next())?),
    };
    let stdin = match state.has_stdin {
        true => Some(fds::pipe(given.next(), "standard input's pipe")?),
        false => None,
    };
    if given.next().is_some() {
        return Err(LinkError::Malformed(
            "more descriptors than announced".into(),
        ));
    }
    Ok(Kept {
        state,
        record,
        process,
        pidfd,
        outputs,
        stdin,
    })
}

fn out_of_place(event: &CellEvent) -> LinkError {
    let what = match event {
        CellEvent::Welcome { .. } => "Welcome",
        CellEvent::Refused { .. } => "Refused",
        CellEvent::Workload(_) => "Workload",
        CellEvent::Started { .. } => "Started",
        CellEvent::Failed { .. } => "Failed",
        CellEvent::Done { .. } => "Done",
        CellEvent::Exited { .. } => "Exited",
        CellEvent::Forked { .. } => "Forked",
    };
    LinkError::Malformed(format!("{what} is out of place"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use init::protocol::{Launch, MAX_STRING};

    fn start(argv: Vec<Vec<u8>>) -> CellRequest {
        let launch = Launch::plain(Uid([1; 16]));
        CellRequest::Start {
            request: 7,
            launch: Launch { argv, ..launch },
        }
    }

    fn null() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn a_start_that_no_packet_holds_goes_sealed_before_its_own_descriptors() {
        let short = start(vec![b"true".to_vec()]);
        let (bytes, fds) = ToCell::pack(&short, vec![null()]).unwrap();
        assert_eq!(
            (CellRequest::decode(&bytes).unwrap(), fds.len()),
            (short, 1)
        );
        let long = start(vec![vec![b'x'; MAX_STRING]; 9]);
        let (bytes, fds) = ToCell::pack(&long, vec![null()]).unwrap();
        let sealed = CellRequest::Sealed { request: 7 };
        assert_eq!(
            (CellRequest::decode(&bytes).unwrap(), fds.len()),
            (sealed, 2)
        );
        let inside = Sealed::open(&fds[0], MAX_SEALED).unwrap();
        assert!(CellRequest::decode(&inside).unwrap() == long);
    }

    #[test]
    fn what_is_too_long_even_so_is_refused_and_is_no_fault_of_the_link() {
        for argv in [
            vec![vec![b'x'; MAX_STRING + 1]],
            vec![vec![b'x'; MAX_STRING]; 70],
        ] {
            let refused = ToCell::pack(&start(argv), Vec::new()).unwrap_err();
            assert!(matches!(refused, LinkError::TooLarge(_)), "{refused}");
        }
    }
}
