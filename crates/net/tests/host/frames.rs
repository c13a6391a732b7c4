// SPDX-License-Identifier: Apache-2.0
//! Frames made by hand, sent and seen by packet sockets: what a hostile root in a cell can send.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::bed::Ns;

pub(crate) type Mac = [u8; 6];

/// A packet socket on one link.
pub(crate) struct Tap {
    socket: OwnedFd,
    link: LinkAddr,
}

impl Tap {
    pub(crate) fn on(ns: &Ns, link: &str) -> Self {
        ns.run(|| {
            let address = nix::ifaddrs::getifaddrs()
                .unwrap()
                .filter(|interface| interface.interface_name == link)
                .find_map(|interface| interface.address?.as_link_addr().copied())
                .unwrap();
            let kind = SockType::Raw;
            let all = SockProtocol::EthAll;
            let socket = socket(AddressFamily::Packet, kind, SockFlag::SOCK_CLOEXEC, all).unwrap();
            bind(socket.as_raw_fd(), &address).unwrap();
            let patience = TimeVal::new(30, 0);
            setsockopt(&socket, sockopt::ReceiveTimeout, &patience).unwrap();
            Self {
                socket,
                link: address,
            }
        })
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        sendto(
            self.socket.as_raw_fd(),
            frame,
            &self.link,
            MsgFlags::empty(),
        )
        .unwrap();
    }

    /// All frames until one that contains the mark; it must come.
    pub(crate) fn until(&self, mark: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let mut bytes = vec![0; 2048];
            let length = recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::empty())
                .expect("the mark came not");
            bytes.truncate(length);
            let last = has(&bytes, mark);
            frames.push(bytes);
            if last {
                return frames;
            }
        }
    }
}

pub(crate) fn has(frame: &[u8], mark: &[u8]) -> bool {
    frame.windows(mark.len()).any(|window| window == mark)
}

pub(crate) fn ethernet(to: Mac, from: Mac, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &kind.to_be_bytes(), payload].concat()
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | c.get(1).map_or(0, |b| u32::from(*b)));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !u16::try_from(total).unwrap()
}

/// UDP from port 9 to port 9.
pub(crate) fn udp4(from: Ipv4Addr, to: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(28 + data.len()).unwrap();
    let mut header = vec![0x45, 0];
    header.extend(length.to_be_bytes());
    header.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    header.extend(from.octets());
    header.extend(to.octets());
    let check = sum(&header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header.extend([0, 9, 0, 9]);
    header.extend((length - 20).to_be_bytes());
    header.extend([0, 0]);
    header.extend(data);
    header
}

fn ipv6(from: Ipv6Addr, to: Ipv6Addr, next: u8, mut payload: Vec<u8>, check_at: usize) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    let mut pseudo = [from.octets(), to.octets()].concat();
    pseudo.extend(u32::from(length).to_be_bytes());
    pseudo.extend([0, 0, 0, next]);
    pseudo.extend(&payload);
    let check = sum(&pseudo);
    payload[check_at..check_at + 2].copy_from_slice(&check.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([next, 255]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

pub(crate) fn udp6(from: Ipv6Addr, to: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 9, 0, 9];
    payload.extend(u16::try_from(8 + data.len()).unwrap().to_be_bytes());
    payload.extend([0, 0]);
    payload.extend(data);
    ipv6(from, to, 17, payload, 6)
}

/// An ICMPv6 message of the neighbour discovery: about `target`, whose hardware address it says.
pub(crate) fn discovery(
    kind: u8,
    from: Ipv6Addr,
    to: Ipv6Addr,
    target: Ipv6Addr,
    mac: Mac,
) -> Vec<u8> {
    let mut payload = vec![kind, 0, 0, 0, 0x60, 0, 0, 0];
    payload.extend(target.octets());
    payload.extend([2, 1]);
    payload.extend(mac);
    ipv6(from, to, 58, payload, 2)
}

/// The same packet behind an extension header that says nothing.
pub(crate) fn behind_options(packet: &[u8]) -> Vec<u8> {
    const DESTINATION_OPTIONS: u8 = 60;
    let mut out = packet.to_vec();
    let length = u16::from_be_bytes([packet[4], packet[5]]) + 8;
    out[4..6].copy_from_slice(&length.to_be_bytes());
    // The options: which header follows, 8 bytes in all, padding.
    let options = [packet[6], 0, 1, 4, 0, 0, 0, 0];
    out[6] = DESTINATION_OPTIONS;
    out.splice(40..40, options);
    out
}

/// Says that `ip` is at `mac`, in an answer.
pub(crate) fn arp(mac: Mac, ip: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 2];
    packet.extend(mac);
    packet.extend(ip.octets());
    packet.extend([0xff; 6]);
    packet.extend(to.octets());
    packet
}
