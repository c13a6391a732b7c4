// SPDX-License-Identifier: Apache-2.0
//! `SOCK_SEQPACKET` sockets of the Unix domain: whole packets, with descriptors beside them.
//!
//! A packet comes whole or the receive fails: one that was cut, in its bytes or in its descriptors,
//! is an error of its own ([`ReceiveError`]), and every descriptor that came with it is closed.
//! Everything is close-on-exec. It knows no message format.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};

use crate::{Context, Error, Result};

/// The most descriptors of one packet that this module sends or takes (`SCM_MAX_FD` is 253).
pub const MAX_FDS: usize = 64;

const CONTROL_SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1));
const SEND_SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_FDS));

/// The process at the other end, as the kernel knows it, in the reader's namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Process id; 0 for a process that the reader's pid namespace doesn't show.
    pub pid: i32,
    /// Effective user id, in the reader's user namespace.
    pub uid: u32,
    /// Effective group id, in the reader's user namespace.
    pub gid: u32,
}

impl Credentials {
    /// Reads a `struct ucred`: pid, uid, gid.
    fn parse(data: &[u8]) -> Option<Self> {
        let mut numbers = numbers(data);
        Some(Credentials {
            pid: numbers.next()?,
            uid: numbers.next()?.cast_unsigned(),
            gid: numbers.next()?.cast_unsigned(),
        })
    }
}

/// A packet as it was received; its bytes are in the caller's buffer.
#[derive(Debug)]
pub struct Packet {
    /// How many bytes of the caller's buffer it fills; at least 1.
    pub length: usize,
    /// The descriptors that came with it, close-on-exec; at most [`MAX_FDS`].
    pub fds: Vec<OwnedFd>,
    /// The sender's, where [`pass_credentials`] was set on this socket.
    pub credentials: Option<Credentials>,
}

/// Why no packet was received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The call failed; `EAGAIN` on a non-blocking socket with nothing to read.
    #[error(transparent)]
    Os(#[from] Error),
    /// The packet was longer than the buffer. It is gone, and its descriptors are closed.
    #[error("the packet was longer than the buffer of {buffer} bytes")]
    DataTruncated {
        /// The buffer's size, in bytes.
        buffer: usize,
    },
    /// More descriptors than [`MAX_FDS`], or than this process may open. All of them are closed.
    #[error("the packet had more descriptors than this process takes ({MAX_FDS}) or may open")]
    DescriptorsTruncated,
}

impl ReceiveError {
    /// Whether there was nothing to read on a non-blocking socket.
    pub fn is_would_block(&self) -> bool {
        matches!(self, ReceiveError::Os(e) if e.is_would_block())
    }
}

impl From<ReceiveError> for Error {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Os(error) => error,
            ReceiveError::DataTruncated { .. } => {
                Error::new("recvmsg", Errno::MSGSIZE).about("packet longer than the buffer")
            }
            ReceiveError::DescriptorsTruncated => {
                Error::new("recvmsg", Errno::TOOMANYREFS).about("too many descriptors")
            }
        }
    }
}

/// Whether operations on a new socket wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They wait until they can be done.
    Blocking,
    /// They answer `EAGAIN` where they would wait.
    Nonblocking,
}

impl Mode {
    fn flags(self) -> SocketFlags {
        match self {
            Mode::Blocking => SocketFlags::CLOEXEC,
            Mode::Nonblocking => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        }
    }
}

/// A connected pair.
///
/// # Errors
/// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left.
pub fn pair(mode: Mode) -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        mode.flags(),
        None,
    )
    .call("socketpair")
}

fn socket(mode: Mode) -> Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    rustix::net::socket_with(AddressFamily::UNIX, kind, mode.flags(), None).call("socket")
}

/// A socket that listens at `path`. The modes of the folder and of the socket's file say which
/// users may connect.
///
/// # Errors
/// `EADDRINUSE`: something is at `path` already. `ENAMETOOLONG`: `path` is longer than 107 bytes.
/// `ENOENT`: its folder isn't there. `EACCES`, `EROFS`: the caller may not write in it.
pub fn listen(path: &Path, backlog: i32, mode: Mode) -> Result<OwnedFd> {
    let address = SocketAddrUnix::new(path).call_on("bind", path)?;
    let socket = socket(mode)?;
    rustix::net::bind(&socket, &address).call_on("bind", path)?;
    rustix::net::listen(&socket, backlog).call_on("listen", path)?;
    Ok(socket)
}

/// The next connection of a listening socket.
///
/// # Errors
/// `EAGAIN`: there is none, and the listener is non-blocking. `EMFILE`, `ENFILE`: the process or
/// the machine has no descriptor left; the connection waits. `EINVAL`: the socket doesn't listen.
pub fn accept(listener: impl AsFd, mode: Mode) -> Result<OwnedFd> {
    retry_on_intr(|| rustix::net::accept_with(listener.as_fd(), mode.flags())).call("accept4")
}

/// Connects to the socket at `path`. Doesn't wait for the peer to accept, unless the backlog is
/// full and `mode` is [`Mode::Blocking`].
///
/// # Errors
/// `ENOENT`: there is no such file. `ECONNREFUSED`: no process listens there. `EAGAIN`: the backlog
/// is full, and `mode` is [`Mode::Nonblocking`]. `EACCES`: the caller may not write to the file.
/// `EPROTOTYPE`: a socket of another type. `ENAMETOOLONG`: `path` is longer than 107 bytes.
pub fn connect(path: &Path, mode: Mode) -> Result<OwnedFd> {
    let address = SocketAddrUnix::new(path).call_on("connect", path)?;
    let socket = socket(mode)?;
    retry_on_intr(|| rustix::net::connect(&socket, &address)).call_on("connect", path)?;
    Ok(socket)
}

/// Sends one packet. Never raises `SIGPIPE`.
///
/// # Errors
/// `EINVAL`: the packet is empty; its receiver would take it for the end of the connection.
/// `ETOOMANYREFS`: more than [`MAX_FDS`] descriptors, or more of them under way than
/// `RLIMIT_NOFILE`. `EMSGSIZE`: longer than the send buffer, see [`reserve_send_buffer`]. `EAGAIN`:
/// the peer's queue is full, and the socket is non-blocking. `EPIPE`, `ECONNRESET`: the peer has
/// closed its end.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    if bytes.is_empty() {
        return Err(Error::invalid("sendmsg", "an empty packet"));
    }
    if fds.len() > MAX_FDS {
        return Err(Error::new("sendmsg", Errno::TOOMANYREFS).about("more than 64 descriptors"));
    }
    let mut space = [MaybeUninit::uninit(); SEND_SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::new("sendmsg", Errno::TOOMANYREFS).about("control buffer"));
    }
    let sent = retry_on_intr(|| {
        let flags = SendFlags::NOSIGNAL;
        rustix::net::sendmsg(socket.as_fd(), &[IoSlice::new(bytes)], &mut control, flags)
    })
    .call("sendmsg")?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(Error::new("sendmsg", Errno::MSGSIZE).about("the packet was cut"))
    }
}

/// Receives one packet into `buffer`; `None` is the end of the connection.
///
/// # Errors
/// [`ReceiveError::DataTruncated`] and [`ReceiveError::DescriptorsTruncated`]: the packet is lost.
/// [`ReceiveError::Os`]: `EAGAIN`, with nothing to read on a non-blocking socket; `ECONNRESET`,
/// where the peer closed its end without reading all.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Option<Packet>, ReceiveError> {
    let mut control = Control([0; CONTROL_SPACE]);
    let message = receive_message(socket.as_fd(), buffer, &mut control)?;
    let mut packet = Packet {
        length: message.length,
        fds: Vec::new(),
        credentials: None,
    };
    let control = control.0.get(..message.control).unwrap_or_default();
    for (kind, data) in control_messages(control) {
        match kind {
            // SAFETY: the kernel has just put these descriptors into this process, for this message
            // alone, and each of its control messages is looked at once.
            libc::SCM_RIGHTS => packet
                .fds
                .extend(numbers(data).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })),
            libc::SCM_CREDENTIALS => packet.credentials = Credentials::parse(data),
            _ => {}
        }
    }
    // Returning drops the packet, and with it every descriptor that did arrive.
    if message.flags & libc::MSG_CTRUNC != 0 || packet.fds.len() > MAX_FDS {
        return Err(ReceiveError::DescriptorsTruncated);
    }
    if message.flags & libc::MSG_TRUNC != 0 {
        return Err(ReceiveError::DataTruncated {
            buffer: buffer.len(),
        });
    }
    Ok((packet.length > 0).then_some(packet))
}

/// Room for control messages, aligned as their headers want it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_SPACE]);

/// The results of `recvmsg`: lengths in bytes, and flags.
struct Message {
    length: usize,
    control: usize,
    flags: libc::c_int,
}

/// The raw call, because rustix's reads credentials into a type whose pid can't be 0: that of a
/// sender in an outer pid namespace is.
fn receive_message(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &mut Control,
) -> Result<Message> {
    let mut slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    loop {
        // SAFETY: for this plain structure of integers and pointers, zeros are a valid value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut slice;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_SPACE as _;
        // SAFETY: the header points to one slice and one control buffer of the lengths given, which
        // live and are ours alone during the call.
        let result =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        match usize::try_from(result) {
            Ok(length) => {
                return Ok(Message {
                    length,
                    control: header.msg_controllen as usize,
                    flags: header.msg_flags,
                });
            }
            Err(_) => match Error::last("recvmsg") {
                error if error.is(libc::EINTR) => {}
                error => return Err(error),
            },
        }
    }
}

/// The control messages of `SOL_SOCKET`: type and data. A header is a length that counts itself,
/// the level and the type; the next begins at a multiple of 8.
fn control_messages(mut rest: &[u8]) -> impl Iterator<Item = (libc::c_int, &[u8])> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    std::iter::from_fn(move || {
        loop {
            let length = usize::from_ne_bytes(rest.get(..8)?.try_into().ok()?);
            let mut numbers = numbers(rest.get(8..HEADER)?);
            let (level, kind) = (numbers.next()?, numbers.next()?);
            let data = rest.get(HEADER..length)?;
            rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
            if level == libc::SOL_SOCKET {
                return Some((kind, data));
            }
        }
    })
}

/// The 32-bit numbers in this.
fn numbers(data: &[u8]) -> impl Iterator<Item = i32> {
    let number = |chunk: &[u8]| Some(i32::from_ne_bytes(chunk.try_into().ok()?));
    data.chunks_exact(4).filter_map(number)
}

/// The process that made the connection (`SO_PEERCRED`): the one that called `connect`, `listen` or
/// `socketpair`. The pid is 0 for a process of an outer pid namespace.
///
/// # Errors
/// `ENOTSOCK`: no socket.
pub fn peer_credentials(socket: impl AsFd) -> Result<Credentials> {
    // Not rustix's: its pid can't be 0, which a peer of an outer pid namespace has.
    let mut cred = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure is the kernel's, of the length given, and both live during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut length,
        )
    };
    crate::error::check("getsockopt(SO_PEERCRED)", result.into())?;
    Ok(Credentials {
        pid: cred.pid,
        uid: cred.uid,
        gid: cred.gid,
    })
}

/// Has the kernel add the sender's credentials to every packet received here from now on.
///
/// # Errors
/// `ENOTSOCK`: no socket.
pub fn pass_credentials(socket: impl AsFd) -> Result<()> {
    sockopt::set_socket_passcred(socket, true).call("setsockopt(SO_PASSCRED)")
}

/// Makes room for packets of `bytes` bytes to be sent from here, and returns the buffer's size in
/// bytes as the kernel counts it (overhead included). With `CAP_NET_ADMIN` any size will do;
/// without, `net.core.wmem_max` is the bound.
///
/// # Errors
/// `ENOBUFS`: the bound is smaller than `bytes`. A later send would answer `EMSGSIZE`.
pub fn reserve_send_buffer(socket: impl AsFd, bytes: usize) -> Result<usize> {
    let socket = socket.as_fd();
    // The kernel doubles the number that it gets; a packet may take what remains of the double
    // after 32 bytes.
    if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(socket, bytes).call("setsockopt(SO_SNDBUF)")?;
    }
    let size = sockopt::socket_send_buffer_size(socket).call("getsockopt(SO_SNDBUF)")?;
    if size < bytes.saturating_add(32) {
        return Err(Error::new("setsockopt(SO_SNDBUF)", Errno::NOBUFS)
            .about("packets of this size need a larger net.core.wmem_max or CAP_NET_ADMIN"));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    #[test]
    fn a_packet_carries_bytes_and_descriptors() {
        let (a, b) = pair(Mode::Blocking).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"inside").unwrap();
        send(&a, b"hello", &[file.as_fd()]).unwrap();
        let mut buffer = [0; 64];
        let packet = receive(&b, &mut buffer).unwrap().unwrap();
        assert_eq!(&buffer[..packet.length], b"hello");
        let mut text = String::new();
        let mut received = File::from(packet.fds.into_iter().next().unwrap());
        received.rewind().unwrap();
        received.read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        assert!(
            rustix::io::fcntl_getfd(&received)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
    }

    #[test]
    fn packets_as_large_as_the_protocol_allows_pass_with_the_default_bounds() {
        let (a, b) = pair(Mode::Nonblocking).unwrap();
        reserve_send_buffer(&a, 160 * 1024).unwrap();
        let bytes = vec![7; 160 * 1024];
        send(&a, &bytes, &[]).unwrap();
        let mut buffer = vec![0; 160 * 1024];
        let packet = receive(&b, &mut buffer).unwrap().unwrap();
        assert_eq!(packet.length, bytes.len());
        assert_eq!(buffer, bytes);
    }

    #[test]
    fn a_cut_packet_is_an_error_and_leaks_no_descriptor() {
        // Other tests open and close descriptors meanwhile: only /dev/zero's count, seen by its
        // device.
        let zeros = || {
            let links = std::fs::read_dir("/proc/self/fd").unwrap();
            let links = links.filter_map(|e| std::fs::read_link(e.ok()?.path()).ok());
            links.filter(|l| l == Path::new("/dev/zero")).count()
        };
        let (a, b) = pair(Mode::Blocking).unwrap();
        let zero = File::open("/dev/zero").unwrap();
        let before = zeros();
        send(&a, b"too long for four", &[zero.as_fd(); 5]).unwrap();
        let mut buffer = [0; 4];
        let error = receive(&b, &mut buffer).unwrap_err();
        assert!(
            matches!(error, ReceiveError::DataTruncated { buffer: 4 }),
            "{error}"
        );
        assert_eq!(zeros(), before);
    }

    #[test]
    fn the_most_descriptors_pass_and_one_more_is_refused() {
        let (a, b) = pair(Mode::Blocking).unwrap();
        let null = File::open("/dev/null").unwrap();
        send(&a, b"x", &[null.as_fd(); MAX_FDS]).unwrap();
        assert_eq!(
            receive(&b, &mut [0; 8]).unwrap().unwrap().fds.len(),
            MAX_FDS
        );
        let error = send(&a, b"x", &[null.as_fd(); MAX_FDS + 1]).unwrap_err();
        assert_eq!(error.errno(), libc::ETOOMANYREFS);
    }

    #[test]
    fn more_descriptors_than_we_take_are_closed() {
        let (a, b) = pair(Mode::Blocking).unwrap();
        let null = File::open("/dev/null").unwrap();
        let many = [null.as_fd(); 200];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        let bytes = [IoSlice::new(b"x")];
        rustix::net::sendmsg(&a, &bytes, &mut control, SendFlags::empty()).unwrap();
        let error = receive(&b, &mut [0; 8]).unwrap_err();
        assert!(
            matches!(error, ReceiveError::DescriptorsTruncated),
            "{error}"
        );
    }

    #[test]
    fn the_end_and_nothing_yet_are_told_apart() {
        let (a, b) = pair(Mode::Nonblocking).unwrap();
        assert!(receive(&b, &mut [0; 8]).unwrap_err().is_would_block());
        drop(a);
        assert!(receive(&b, &mut [0; 8]).unwrap().is_none());
        assert_eq!(send(&b, b"x", &[]).unwrap_err().errno(), libc::EPIPE);
    }

    #[test]
    fn a_path_can_be_listened_at_and_the_peer_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let listener = listen(&path, 8, Mode::Nonblocking).unwrap();
        assert!(
            accept(&listener, Mode::Blocking)
                .unwrap_err()
                .is_would_block()
        );
        let client = connect(&path, Mode::Blocking).unwrap();
        let server = accept(&listener, Mode::Blocking).unwrap();
        pass_credentials(&server).unwrap();
        send(&client, b"who", &[]).unwrap();
        let packet = receive(&server, &mut [0; 8]).unwrap().unwrap();
        let me = std::process::id();
        assert_eq!(packet.credentials.unwrap().pid, i32::try_from(me).unwrap());
        assert_eq!(
            peer_credentials(&server).unwrap(),
            packet.credentials.unwrap()
        );
        let error = listen(&path, 8, Mode::Blocking).unwrap_err();
        assert_eq!(error.errno(), libc::EADDRINUSE);
        assert!(error.to_string().contains("s.sock"), "{error}");
    }
}
