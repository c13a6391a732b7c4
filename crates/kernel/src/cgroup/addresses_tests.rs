// SPDX-License-Identifier: Apache-2.0
//! The programs of networks beside the networks themselves: a small interpreter runs the
//! instructions, and a plain reading of the rules says what must come out.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// A packet with these two addresses, as far as a program looks.
fn packet(from: IpAddr, to: IpAddr) -> (u32, Vec<u8>) {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut bytes = vec![0x45; 12];
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            (u32::from(0x0800_u16.to_be()), bytes)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut bytes = vec![0x60; 8];
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            (u32::from(0x86dd_u16.to_be()), bytes)
        }
        _ => panic!("of one family"),
    }
}

/// Runs a program as the kernel would; `None`: it does what the kernel's verifier refuses.
fn run(program: &[Instruction], protocol: u32, bytes: &[u8]) -> Option<bool> {
    let mut registers = [0_u64; 11];
    let mut stack = [0_u8; 16];
    let mut at = 0_usize;
    for _ in 0..1_000_000 {
        let i = program.get(at)?;
        let (code, to, from, offset, value) = i.parts();
        let mut jump = false;
        match code {
            LOAD if from == STACK => {
                let begin = usize::try_from(offset + 16).ok()?;
                let word = stack.get(begin..begin + 4)?;
                registers[usize::from(to)] = u32::from_ne_bytes(word.try_into().ok()?).into();
            }
            LOAD => registers[usize::from(to)] = protocol.into(),
            AND => {
                registers[usize::from(to)] = u64::from(registers[usize::from(to)] as u32 & value)
            }
            MOVE => registers[usize::from(to)] = registers[usize::from(from)],
            SET => registers[usize::from(to)] = value.into(),
            ADD => {}
            CALL if value == LOAD_BYTES => {
                let begin = usize::try_from(registers[2]).ok()?;
                let length = usize::try_from(registers[4]).ok()?;
                let found = bytes.get(begin..begin + length);
                registers[0] = match found {
                    Some(found) => {
                        stack.get_mut(..length)?.copy_from_slice(found);
                        0
                    }
                    None => u64::MAX,
                };
            }
            JUMP_EQUAL => jump = registers[usize::from(to)] as u32 == value,
            JUMP_DIFFERENT => jump = registers[usize::from(to)] as u32 != value,
            EXIT => return Some(registers[0] == 1),
            _ => return None,
        }
        at += 1;
        if jump {
            at += usize::try_from(offset).ok()?;
        }
    }
    None
}

fn is_in(address: IpAddr, (network, prefix): (IpAddr, u8)) -> bool {
    let bits = |it: IpAddr| match it {
        IpAddr::V4(it) => (u128::from(u32::from(it)) << 96, 4),
        IpAddr::V6(it) => (u128::from(it), 16),
    };
    let ((one, family), (other, same)) = (bits(address), bits(network));
    let mask = match prefix {
        0 => 0,
        prefix => u128::MAX << (128 - u32::from(prefix)),
    };
    family == same && one & mask == other & mask
}

fn address() -> impl Strategy<Value = IpAddr> {
    // Few, so that networks have some.
    let four = (0_u8..3, 0_u8..3).prop_map(|(a, b)| Ipv4Addr::new(10, a, 0, b).into());
    let six =
        (0_u16..3, 0_u16..3).prop_map(|(a, b)| Ipv6Addr::new(0xfd00, a, 0, 0, 0, 0, 0, b).into());
    prop_oneof![four, six]
}

fn network() -> impl Strategy<Value = (IpAddr, u8)> {
    (address(), 0_u8..=128).prop_map(|(address, prefix)| match address {
        IpAddr::V4(_) => (address, prefix.min(32)),
        IpAddr::V6(_) => (address, prefix),
    })
}

/// Whether each instruction is reached from the first one: the kernel's verifier demands it.
fn is_reached_everywhere(program: &[Instruction]) -> bool {
    let mut reached = vec![false; program.len()];
    let mut todo = vec![0_usize];
    while let Some(at) = todo.pop() {
        if std::mem::replace(&mut reached[at], true) {
            continue;
        }
        let (code, _, _, offset, _) = program[at].parts();
        if matches!(code, JUMP_DIFFERENT | JUMP_EQUAL) {
            todo.push(at + 1 + usize::try_from(offset).unwrap());
        }
        if code != EXIT {
            todo.push(at + 1);
        }
    }
    reached.iter().all(|it| *it)
}

#[test]
fn what_all_addresses_decide_is_the_last_word() {
    let all: Vec<(IpAddr, u8)> = vec![
        (Ipv4Addr::UNSPECIFIED.into(), 0),
        (Ipv6Addr::UNSPECIFIED.into(), 0),
    ];
    let local: (IpAddr, u8) = (Ipv4Addr::LOCALHOST.into(), 8);
    for (allow, deny) in [
        (vec![], all.clone()),
        (vec![local], all.clone()),
        (all.clone(), vec![local]),
    ] {
        let program = Networks { allow, deny }.program(Direction::In);
        assert!(is_reached_everywhere(&program), "{program:?}");
    }
}

proptest! {
    #[test]
    fn a_program_says_what_its_networks_say(
        allow in prop::collection::vec(network(), 0..4),
        deny in prop::collection::vec(network(), 0..4),
        from in address(),
        to in address(),
    ) {
        prop_assume!(from.is_ipv4() == to.is_ipv4());
        let networks = Networks { allow, deny };
        let (protocol, bytes) = packet(from, to);
        for (direction, other) in [(Direction::In, from), (Direction::Out, to)] {
            let within = |all: &[(IpAddr, u8)]| all.iter().any(|it| is_in(other, *it));
            let passes = within(&networks.allow) || !within(&networks.deny);
            let program = networks.program(direction);
            prop_assert!(is_reached_everywhere(&program));
            prop_assert_eq!(run(&program, protocol, &bytes), Some(passes));
            // A packet that is cut off has no address; one of another protocol needs none.
            prop_assert_eq!(run(&program, protocol, &bytes[..10]), Some(false));
            prop_assert_eq!(run(&program, u32::from(0x0806_u16.to_be()), &bytes), Some(true));
        }
    }
}
