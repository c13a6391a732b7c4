// SPDX-License-Identifier: Apache-2.0
//! A netlink socket as a conversation: messages in one datagram, then all that the kernel answers.
//!
//! It blocks for as long as the kernel works on the messages and not longer: rtnetlink and
//! nfnetlink work in `sendmsg`, so every answer waits in the socket when that returns. It knows no
//! message but the acknowledgement; [`crate::links`] and [`crate::nft`] make and read them.

use std::time::Duration;

use kernel::poll::{Deadline, Interest};
use netlink_packet_core::{NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_REQUEST};
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};

use crate::error::Step;
use crate::{Error, Result};

/// `NETLINK_ROUTE` of `linux/netlink.h`.
const ROUTE: isize = 0;
/// `NETLINK_SOCK_DIAG` of `linux/netlink.h`.
const SOCK_DIAG: isize = 4;
/// `NETLINK_NETFILTER` of `linux/netlink.h`.
const NETFILTER: isize = 12;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `nlmsghdr`.
const HEADER: usize = 16;

/// Room for the largest batch: all elements of a thousand cells are about 1 MiB.
const SEND_BYTES: usize = 32 << 20;
/// Room for what a dump brings at once, and for errors.
const RECEIVE_BYTES: usize = 4 << 20;
/// The kernel's parts of a dump have 32 KiB at most.
const PART: usize = 64 << 10;

/// A message of the kernel.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) sequence: u32,
    pub(crate) kind: u16,
    /// Of an acknowledgement: 0 is success.
    pub(crate) errno: Option<i32>,
    /// What the kernel says to an error, empty where it says nothing.
    pub(crate) text: String,
    /// The whole message, with its header.
    pub(crate) bytes: Vec<u8>,
}

/// One step of the routing protocol: what it is for, the flags beside request and ack, the message.
pub(crate) type RouteStep = (String, u16, RouteNetlinkMessage);

/// News of links, from when it was opened, in the namespace of the thread that opened it. Only that
/// there are some is of interest.
pub(crate) struct LinkNews(Socket);

impl LinkNews {
    pub(crate) fn open() -> Result<Self> {
        const LINKS: u32 = 1;
        let open = || {
            let mut socket = Socket::new(ROUTE)?;
            socket.bind_auto()?;
            socket.add_membership(LINKS)?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let opened: std::io::Result<Socket> = open();
        opened.step("listening for news of links").map(Self)
    }

    /// Forgets the news that are there.
    pub(crate) fn drain(&self) {
        let mut buffer = [0u8; 256];
        // ENOBUFS says that there were more than the socket had room for: they are gone too.
        while !matches!(
            rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::TRUNC),
            Err(Errno::AGAIN)
        ) {}
    }

    /// Waits for some; false where there were none in that time.
    pub(crate) fn wait(&self, at_most: Duration) -> Result<bool> {
        let until = Deadline::after(at_most);
        kernel::poll::wait(&self.0, Interest::Readable, until).step("waiting for news of links")
    }
}

/// An open socket of one protocol, in the namespace of the thread that opened it.
pub(crate) struct Conversation {
    socket: Socket,
    sequence: u32,
}

impl Conversation {
    pub(crate) fn route() -> Result<Self> {
        Self::open(ROUTE).step("socket(NETLINK_ROUTE)")
    }

    pub(crate) fn netfilter() -> Result<Self> {
        Self::open(NETFILTER).step("socket(NETLINK_NETFILTER)")
    }

    pub(crate) fn sockets() -> Result<Self> {
        Self::open(SOCK_DIAG).step("socket(NETLINK_SOCK_DIAG)")
    }

    fn open(protocol: isize) -> std::io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        // A connected socket takes messages of the kernel alone.
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_cap_ack(true)?;
        socket.set_ext_ack(true)?;
        sockopt::set_socket_send_buffer_size_force(&socket, SEND_BYTES)?;
        sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// The number of the next message.
    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Sends a datagram of messages and reads all answers that it has at once.
    pub(crate) fn exchange(&mut self, datagram: &[u8]) -> Result<Vec<Answer>> {
        self.socket.send(datagram, 0).step("send(AF_NETLINK)")?;
        let mut answers = Vec::new();
        while self.receive(&mut answers)? {}
        Ok(answers)
    }

    /// Reads one datagram; false where none waits.
    fn receive(&self, into: &mut Vec<Answer>) -> Result<bool> {
        let mut buffer = vec![0u8; PART];
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let received =
            rustix::io::retry_on_intr(|| rustix::net::recv(&self.socket, &mut buffer[..], flags));
        let length = match received {
            Ok((_, length)) => length,
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => {
                return Err(kernel::Error::new("recv", errno)).step("recv(AF_NETLINK)");
            }
        };
        let Some(datagram) = buffer.get(..length) else {
            return Err(unreadable("recv(AF_NETLINK)", "it is longer than 64 KiB"));
        };
        into.extend(parse(datagram));
        Ok(true)
    }

    /// Sends steps of the routing protocol in one datagram. The kernel carries all of them out,
    /// also behind one that fails: the caller takes back what isn't wanted.
    ///
    /// # Errors
    /// The first refusal, with its step.
    pub(crate) fn ask(&mut self, steps: Vec<RouteStep>) -> Result<()> {
        let (mut datagram, mut names) = (Vec::new(), Vec::new());
        for (what, flags, message) in steps {
            let sequence = self.next_sequence();
            datagram.extend(route_message(
                sequence,
                NLM_F_REQUEST | NLM_F_ACK | flags,
                message,
            ));
            names.push((sequence, what));
        }
        if datagram.is_empty() {
            return Ok(());
        }
        let answers = self.exchange(&datagram)?;
        for (sequence, what) in names {
            let answer = answers
                .iter()
                .find(|a| a.sequence == sequence && a.errno.is_some());
            match answer {
                None => return Err(unreadable(&what, "there is no acknowledgement")),
                Some(answer) => acknowledged(&what, answer)?,
            }
        }
        Ok(())
    }

    /// All objects that the request's kind has.
    pub(crate) fn dump(
        &mut self,
        what: &str,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let sequence = self.next_sequence();
        let request = route_message(sequence, NLM_F_REQUEST | NLM_F_DUMP, message);
        self.dump_raw(what, &request)?
            .iter()
            .filter(|answer| answer.kind > NLMSG_DONE)
            .map(|answer| parse_route(what, &answer.bytes))
            .collect()
    }

    /// One object; none where the kernel has no such.
    pub(crate) fn get(
        &mut self,
        what: &str,
        message: RouteNetlinkMessage,
    ) -> Result<Option<RouteNetlinkMessage>> {
        const NO_SUCH_LINK: i32 = 19;
        let sequence = self.next_sequence();
        let request = route_message(sequence, NLM_F_REQUEST, message);
        let answers = self.exchange(&request)?;
        let answer = answers.iter().find(|answer| answer.sequence == sequence);
        match answer {
            None => Err(unreadable(what, "there is no answer")),
            Some(answer) if answer.errno == Some(NO_SUCH_LINK) => Ok(None),
            Some(answer) => {
                acknowledged(what, answer)?;
                parse_route(what, &answer.bytes).map(Some)
            }
        }
    }

    /// The messages of a dump, as they came.
    pub(crate) fn dump_raw(&mut self, what: &str, request: &[u8]) -> Result<Vec<Answer>> {
        self.socket.send(request, 0).step("send(AF_NETLINK)")?;
        let mut answers = Vec::new();
        loop {
            let more = self.receive(&mut answers)?;
            for answer in &answers {
                if answer.errno.is_some_and(|errno| errno != 0) {
                    acknowledged(what, answer)?;
                }
            }
            if answers.last().is_some_and(|a| a.kind == NLMSG_DONE) {
                return Ok(answers);
            }
            if !more {
                return Err(unreadable(what, "the list has no end"));
            }
        }
    }
}

fn route_message(sequence: u32, flags: u16, message: RouteNetlinkMessage) -> Vec<u8> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = flags;
    message.header.sequence_number = sequence;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn parse_route(what: &str, bytes: &[u8]) -> Result<RouteNetlinkMessage> {
    match NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes).map(|m| m.payload) {
        Ok(NetlinkPayload::InnerMessage(message)) => Ok(message),
        Ok(_) => Err(unreadable(what, "it isn't of the routing protocol")),
        Err(error) => Err(unreadable(what, &error.to_string())),
    }
}

fn unreadable(step: &str, reason: &str) -> Error {
    Error::Answer {
        step: step.to_owned(),
        reason: reason.to_owned(),
    }
}

/// An acknowledgement as a result.
pub(crate) fn acknowledged(what: &str, answer: &Answer) -> Result<()> {
    let errno = answer.errno.unwrap_or(0);
    if errno == 0 {
        return Ok(());
    }
    let mut reason = std::io::Error::from_raw_os_error(errno).to_string();
    if !answer.text.is_empty() {
        reason = format!("{reason}: {}", answer.text);
    }
    Err(Error::Kernel {
        step: what.to_owned(),
        errno,
        reason,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The messages of a datagram; what is cut short is left out.
fn parse(mut datagram: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(length) = u32_at(datagram, 0).and_then(|l| usize::try_from(l).ok()) {
        let (Some(bytes), true) = (datagram.get(..length), length >= HEADER) else {
            break;
        };
        answers.extend(parse_one(bytes));
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    answers
}

fn parse_one(bytes: &[u8]) -> Option<Answer> {
    let (kind, flags) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
    let mut answer = Answer {
        sequence: u32_at(bytes, 8)?,
        kind,
        errno: None,
        text: String::new(),
        bytes: bytes.to_vec(),
    };
    let code = u32_at(bytes, HEADER).map(|code| code.cast_signed().saturating_neg());
    if kind == NLMSG_ERROR {
        answer.errno = Some(code?);
        answer.text = explanation(bytes, flags).unwrap_or_default();
    }
    // A dump that failed half-way says so in its end.
    if kind == NLMSG_DONE {
        answer.errno = code.filter(|errno| *errno > 0);
    }
    Some(answer)
}

/// The text that the kernel adds to an error (`NLMSGERR_ATTR_MSG`).
fn explanation(bytes: &[u8], flags: u16) -> Option<String> {
    const MESSAGE: u16 = 1;
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    // Behind the code comes the request: its header alone where it was capped.
    let request = HEADER + 4;
    let mut at = request + HEADER;
    if flags & NLM_F_CAPPED == 0 {
        let length = usize::try_from(u32_at(bytes, request)?).ok()?;
        at = request + length.next_multiple_of(4);
    }
    while let (Some(length), Some(kind)) = (u16_at(bytes, at), u16_at(bytes, at + 2)) {
        let length = usize::from(length);
        if kind & 0x3fff == MESSAGE {
            let text = bytes.get(at + 4..at + length)?;
            let text = String::from_utf8_lossy(text);
            return Some(text.trim_end_matches('\0').to_owned());
        }
        if length < 4 {
            return None;
        }
        at += length.next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_brings_the_kernel_s_own_words() {
        let mut bytes = Vec::new();
        let text = b"Device is up\0\0\0\0";
        let length = u32::try_from(16 + 4 + 16 + 4 + text.len()).unwrap();
        bytes.extend(length.to_ne_bytes());
        bytes.extend(NLMSG_ERROR.to_ne_bytes());
        bytes.extend((NLM_F_ACK_TLVS | NLM_F_CAPPED).to_ne_bytes());
        bytes.extend(7u32.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend((-16i32).to_ne_bytes());
        bytes.extend([0; 16]);
        bytes.extend(u16::try_from(4 + text.len()).unwrap().to_ne_bytes());
        bytes.extend(1u16.to_ne_bytes());
        bytes.extend(text);
        let answers = parse(&bytes);
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].sequence, answers[0].errno), (7, Some(16)));
        let error = acknowledged("adding a port", &answers[0]).unwrap_err();
        assert!(error.to_string().ends_with(": Device is up"), "{error}");
        assert_eq!(error.errno(), 16);
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = explanation(&bytes, NLM_F_ACK_TLVS);
        }
    }
}
