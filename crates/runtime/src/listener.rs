// SPDX-License-Identifier: Apache-2.0
//! Agents that decide on system calls (`SCMP_ACT_NOTIFY`): the listener of a program's filter comes
//! here when the program is about to be executed, and goes to the socket that the profile names,
//! with the document that the OCI runtime specification has for it (`ContainerProcessState`).
//! `cell/start` calls it.
//!
//! The program waits until the agent has it, so none runs that its agent doesn't hear. Whether the
//! agent is up to it is the agent's: a node keeps no copy, and once the last one is closed the
//! calls fail with `ENOSYS` (seccomp_unotify(2)). A profile with an agent is administrators'
//! ([`crate::privilege`]); what comes from the cell is a descriptor alone, which is looked at.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use init::protocol::Listening;
use kernel::seqpacket::{self, Mode};
use model::error::{Error, Reason};
use model::status::Meta;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::hooks;
use crate::watched::watch;

/// Whom a profile names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Agent {
    /// The path of its socket.
    pub(crate) socket: String,
    /// What it is told beside the listener.
    pub(crate) metadata: String,
}

/// Has the listener of a program that is about to begin go to its agent, where it is to have one.
/// Answers, with its filter, the end of a socket pair that the program is to have for it; when the
/// last copy of that is closed, nothing is left of this.
///
/// # Errors
/// `INTERNAL`: the node has no descriptor left.
pub(crate) fn expect(
    wanted: Option<(Listening, Agent)>,
    program: &Meta,
) -> Result<Option<(Listening, OwnedFd)>, Error> {
    let Some((filter, agent)) = wanted else {
        return Ok(None);
    };
    let failed = |error: String| {
        let message = format!("a socket for the filter's listener: {error}");
        Error::new(Reason::Internal, message)
    };
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).map_err(|e| failed(e.to_string()))?;
    seqpacket::pass_credentials(&ours).map_err(|e| failed(e.to_string()))?;
    rustix::io::ioctl_fionbio(&ours, true).map_err(|e| failed(e.to_string()))?;
    let ours = watch(ours, Interest::READABLE).map_err(|e| failed(e.to_string()))?;
    tokio::spawn(hand_over(ours, agent, program.clone()));
    Ok(Some((filter, theirs)))
}

async fn hand_over(program: AsyncFd<OwnedFd>, agent: Agent, meta: Meta) {
    let Some((listener, pid)) = heard(&program).await else {
        return;
    };
    // A path of the node may lie on a file system that doesn't answer.
    let give = move || give(&agent, &meta, &listener, pid);
    let given = tokio::task::spawn_blocking(give).await;
    let word = match given {
        Ok(Ok(())) => vec![Listening::GO_ON],
        Ok(Err(why)) => refusal(&why),
        Err(_) => refusal("the node is ending"),
    };
    // A program that has been killed meanwhile hears no word.
    let _ = seqpacket::send(program.get_ref(), &word, &[]);
}

fn refusal(why: &str) -> Vec<u8> {
    let text = why.bytes().take(Listening::MAX_WORD - 1);
    std::iter::once(Listening::REFUSED).chain(text).collect()
}

/// The listener, and the process that has sent it, as the kernel says. `None`: the program has
/// ended, or was given up.
async fn heard(program: &AsyncFd<OwnedFd>) -> Option<(OwnedFd, i32)> {
    loop {
        let mut guard = program.readable().await.ok()?;
        match seqpacket::receive(program.get_ref(), &mut [0; 8]) {
            Ok(Some(packet)) => {
                let mut fds = packet.fds.into_iter();
                let listener = fds.next().filter(is_listener)?;
                return Some((listener, packet.credentials?.pid));
            }
            Err(error) if error.is_would_block() => guard.clear_ready(),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Whether a descriptor is what it should be: a cell could send any other.
fn is_listener(fd: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    std::fs::read_link(link).is_ok_and(|to| to == Path::new("anon_inode:seccomp notify"))
}

/// Gives it away. Waits for no agent: one that has no room for another connection is told of.
fn give(agent: &Agent, meta: &Meta, listener: &OwnedFd, pid: i32) -> Result<(), String> {
    let path = Path::new(&agent.socket);
    let at = |error: String| format!("{}: {error}", path.display());
    let socket = connect(path).map_err(|error| at(error.to_string()))?;
    let text = document(agent, meta, pid).to_string();
    let sent = seqpacket::send(&socket, text.as_bytes(), &[listener.as_fd()]);
    sent.map_err(|error| at(error.to_string()))
}

fn connect(path: &Path) -> rustix::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// The specification's `ContainerProcessState`. There is no bundle here.
fn document(agent: &Agent, meta: &Meta, pid: i32) -> serde_json::Value {
    serde_json::json!({
        "ociVersion": hooks::OCI_VERSION,
        "fds": ["seccompFd"],
        "pid": pid,
        "metadata": agent.metadata,
        "state": hooks::state(meta, "creating", Some(pid), ""),
    })
}
