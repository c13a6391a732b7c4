// SPDX-License-Identifier: Apache-2.0
//! With which addresses the processes of a group may speak: networks, made into two eBPF programs
//! that the kernel asks for each packet of a socket of the group (`BPF_PROG_TYPE_CGROUP_SKB`), one
//! for those that come and one for those that go.
//!
//! [`Networks::program`] is pure, as [`super::devices::program`] is. The rules are those of
//! systemd.resource-control(5), `IPAddressAllow=`: what is allowed passes, of the rest what is
//! denied doesn't, all else passes. Packets that are no IP have no address and pass.

use std::net::IpAddr;

use super::Cgroup;
use super::devices::{
    AND, ANSWER, EXIT, Instruction, JUMP_DIFFERENT, JUMP_EQUAL, LOAD, SET, attach, instruction,
    load,
};
use crate::Result;

/// Networks: an address and the length of its prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Networks {
    /// Those that the group may speak with, whatever is denied.
    pub allow: Vec<(IpAddr, u8)>,
    /// Those that it may not speak with.
    pub deny: Vec<(IpAddr, u8)>,
}

/// Whose address of a packet counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The sender's, of what comes.
    In,
    /// The receiver's, of what goes.
    Out,
}

const MOVE: u8 = 0xbf; // BPF_ALU64 | BPF_MOV | BPF_X
const ADD: u8 = 0x07; // BPF_ALU64 | BPF_ADD | BPF_K
const CALL: u8 = 0x85; // BPF_JMP | BPF_CALL

// Registers beside the answer: a helper's arguments, what it leaves alone, the stack.
const ONE: u8 = 1;
const TWO: u8 = 2;
const THREE: u8 = 3;
const FOUR: u8 = 4;
const PACKET: u8 = 6;
const PROTOCOL: u8 = 7;
const STACK: u8 = 10;
/// `bpf_skb_load_bytes`.
const LOAD_BYTES: u32 = 26;
/// Where `struct __sk_buff` has the protocol, in the network's order.
const PROTOCOL_AT: i16 = 16;
/// Where the address is on the stack: 16 bytes from its end.
const ADDRESS: i16 = -16;

/// A family: its protocol, where its header has the two addresses, and how long they are.
const FAMILIES: [(u16, [u32; 2], u8); 2] = [(0x0800, [12, 16], 4), (0x86dd, [8, 24], 16)];

impl Networks {
    /// Whether everything passes.
    pub fn are_none(&self) -> bool {
        self.deny.is_empty()
    }

    /// The program for one direction.
    pub fn program(&self, direction: Direction) -> Vec<Instruction> {
        let mut out = vec![
            instruction(MOVE, PACKET, ONE, 0, 0),
            instruction(LOAD, PROTOCOL, PACKET, PROTOCOL_AT, 0),
        ];
        for (protocol, at, length) in FAMILIES {
            let at = match direction {
                Direction::In => at[0],
                Direction::Out => at[1],
            };
            let body = self.family(at, length);
            // Behind the body there is the next family.
            let behind = i16::try_from(body.len()).unwrap_or(i16::MAX);
            let protocol = u32::from(protocol.to_be());
            out.push(instruction(JUMP_DIFFERENT, PROTOCOL, 0, behind, protocol));
            out.extend(body);
        }
        out.extend(answer(true));
        out
    }

    /// What is done with a packet of one family.
    fn family(&self, at: u32, length: u8) -> Vec<Instruction> {
        let mut out = vec![
            instruction(MOVE, ONE, PACKET, 0, 0),
            instruction(SET, TWO, 0, 0, at),
            instruction(MOVE, THREE, STACK, 0, 0),
            instruction(ADD, THREE, 0, 0, i32::from(ADDRESS).cast_unsigned()),
            instruction(SET, FOUR, 0, 0, length.into()),
            instruction(CALL, 0, 0, 0, LOAD_BYTES),
            // A packet that ends before its address is none.
            instruction(JUMP_EQUAL, ANSWER, 0, 2, 0),
        ];
        out.extend(answer(false));
        for (networks, allowed) in [(&self.allow, true), (&self.deny, false)] {
            for (address, prefix) in networks {
                let bytes = match address {
                    IpAddr::V4(address) => address.octets().to_vec(),
                    IpAddr::V6(address) => address.octets().to_vec(),
                };
                if bytes.len() == usize::from(length) {
                    out.extend(one(&bytes, *prefix, allowed));
                    // What comes after all addresses is never reached: the kernel refuses that.
                    if *prefix == 0 {
                        return out;
                    }
                }
            }
        }
        out.extend(answer(true));
        out
    }

    /// Whether there are more than a program can have: jumps are short.
    fn are_too_many(&self) -> bool {
        self.allow.len() + self.deny.len() > MOST
    }
}

/// At most so many networks, each of 14 instructions at most.
const MOST: usize = 2000;

/// A network: tests that jump behind it, then what it decides.
fn one(address: &[u8], prefix: u8, allowed: bool) -> Vec<Instruction> {
    let words = address.chunks_exact(4).zip(0_i16..);
    let mut tests = Vec::new();
    for (word, turn) in words {
        let bits = u32::from(prefix).saturating_sub(32 * u32::from(turn.unsigned_abs()));
        // As the processor reads what the network has sent.
        let mask = match bits {
            0 => break,
            32.. => u32::MAX,
            bits => (u32::MAX << (32 - bits)).to_be(),
        };
        let value = u32::from_ne_bytes(word.try_into().unwrap_or_default()) & mask;
        tests.push((turn, mask, value));
    }
    let mut out = Vec::new();
    let count = i16::try_from(tests.len()).unwrap_or(0);
    for ((turn, mask, value), number) in tests.into_iter().zip(1_i16..) {
        let behind = (count - number) * 3 + 2;
        out.extend([
            instruction(LOAD, ANSWER, STACK, ADDRESS + 4 * turn, 0),
            instruction(AND, ANSWER, 0, 0, mask),
            instruction(JUMP_DIFFERENT, ANSWER, 0, behind, value),
        ]);
    }
    out.extend(answer(allowed));
    out
}

fn answer(passes: bool) -> [Instruction; 2] {
    [
        instruction(SET, ANSWER, 0, 0, passes.into()),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

impl Cgroup {
    /// Has the kernel drop what sockets that are made in this group, or below, get from or send to
    /// networks that they may not speak with. What an enclosing group drops stays dropped. It holds
    /// until the group is removed.
    ///
    /// # Errors
    /// `EPERM`: without `CAP_BPF` and `CAP_NET_ADMIN` of the node. `EINVAL`, `ENOSYS`: a kernel
    /// without `CONFIG_CGROUP_BPF`. `E2BIG`: too many networks, or 64 programs are attached
    /// already.
    pub fn restrict_addresses(&self, networks: &Networks) -> Result<()> {
        const TYPE_CGROUP_SKB: u32 = 8;
        const INGRESS: u32 = 0;
        const EGRESS: u32 = 1;
        if networks.are_too_many() {
            return Err(crate::Error::new("bpf", rustix::io::Errno::TOOBIG));
        }
        for (direction, kind) in [(Direction::In, INGRESS), (Direction::Out, EGRESS)] {
            let program = load(TYPE_CGROUP_SKB, &networks.program(direction))?;
            attach(self, &program, kind)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
