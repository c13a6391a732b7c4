// SPDX-License-Identifier: Apache-2.0
//! Which devices the processes of a group may use: rules, made into an eBPF program that the kernel
//! asks (`BPF_PROG_TYPE_CGROUP_DEVICE`). cgroup v2 has no file for that.
//!
//! [`program`] is pure: rules in, instructions out. [`Cgroup::allow_devices`] loads and attaches.
//! The program is small and written by hand: no compiler, no library, no map.
//!
//! The rules mean what those of version 1 meant: they are taken in order, and for each kind of
//! access the *last* one that fits counts. So `c 1:3 r` and `c 1:3 w` together allow opening for
//! both. What no rule fits is refused.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::Cgroup;
use crate::error::check;
use crate::{Error, Result};

/// The kind of device that a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Block and character devices.
    All,
    /// Block devices.
    Block,
    /// Character devices.
    Character,
}

/// Kinds of access, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access(u8);

impl Access {
    /// Making a device node.
    pub const MAKE: Access = Access(1);
    /// Opening for reading.
    pub const READ: Access = Access(2);
    /// Opening for writing.
    pub const WRITE: Access = Access(4);
    /// All three.
    pub const ALL: Access = Access(7);

    /// Reads the letters `r`, `w` and `m`; `None` where there is another one.
    pub fn parse(letters: &str) -> Option<Access> {
        letters.chars().try_fold(Access(0), |set, letter| {
            let one = match letter {
                'r' => Access::READ,
                'w' => Access::WRITE,
                'm' => Access::MAKE,
                _ => return None,
            };
            Some(Access(set.0 | one.0))
        })
    }
}

/// One rule; a number that is `None` fits all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Whether the access is allowed.
    pub allow: bool,
    /// The kind of device.
    pub kind: Kind,
    /// The device's major number.
    pub major: Option<u32>,
    /// The device's minor number.
    pub minor: Option<u32>,
    /// The kinds of access that the rule is about.
    pub access: Access,
}

/// Character devices that do no harm: those of empty memory, of chance, of terminals.
const HARMLESS: [(u32, Option<u32>); 8] = [
    (1, Some(3)),
    (1, Some(5)),
    (1, Some(7)),
    (1, Some(8)),
    (1, Some(9)),
    (5, Some(0)),
    (5, Some(2)),
    // Terminals of devpts.
    (136, None),
];

/// Rules for null, zero, full, random, urandom, tty, ptmx and terminals, which every container may
/// use in every way.
pub fn harmless() -> Vec<Rule> {
    let rule = |(major, minor)| Rule {
        allow: true,
        kind: Kind::Character,
        major: Some(major),
        minor,
        access: Access::ALL,
    };
    HARMLESS.into_iter().map(rule).collect()
}

/// One instruction of eBPF: the kernel's `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    code: u8,
    /// The destination in the lower half, the source in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

#[cfg(test)]
impl Instruction {
    /// Code, destination, source, offset, value.
    pub(super) fn parts(&self) -> (u8, u8, u8, i16, u32) {
        let (to, from) = (self.registers & 15, self.registers >> 4);
        (self.code, to, from, self.offset, self.value.cast_unsigned())
    }
}

pub(super) const LOAD: u8 = 0x61; // BPF_LDX | BPF_W | BPF_MEM
pub(super) const AND: u8 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const SHIFT_RIGHT: u8 = 0x74; // BPF_ALU | BPF_RSH | BPF_K
const COPY: u8 = 0xbc; // BPF_ALU | BPF_MOV | BPF_X
pub(super) const SET: u8 = 0xb7; // BPF_ALU64 | BPF_MOV | BPF_K
pub(super) const JUMP_EQUAL: u8 = 0x16; // BPF_JMP32 | BPF_JEQ | BPF_K
pub(super) const JUMP_DIFFERENT: u8 = 0x56; // BPF_JMP32 | BPF_JNE | BPF_K
pub(super) const EXIT: u8 = 0x95; // BPF_JMP | BPF_EXIT

// Registers: the answer, the context, and what is kept of it.
pub(super) const ANSWER: u8 = 0;
const CONTEXT: u8 = 1;
/// The kinds of access that are asked for and that no rule has allowed yet.
const WANTED: u8 = 2;
const KIND: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;
const SCRATCH: u8 = 6;

pub(super) const fn instruction(
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    value: u32,
) -> Instruction {
    Instruction {
        code,
        registers: to | (from << 4),
        offset,
        value: value as i32,
    }
}

fn answer(allowed: bool) -> [Instruction; 2] {
    [
        instruction(SET, ANSWER, 0, 0, allowed.into()),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// The program of these rules.
pub fn program(rules: &[Rule]) -> Vec<Instruction> {
    // struct bpf_cgroup_dev_ctx: access_type (access << 16 | kind), major, minor.
    let mut out = vec![
        instruction(LOAD, WANTED, CONTEXT, 0, 0),
        instruction(COPY, KIND, WANTED, 0, 0),
        instruction(AND, KIND, 0, 0, 0xffff),
        instruction(SHIFT_RIGHT, WANTED, 0, 0, 16),
        instruction(LOAD, MAJOR, CONTEXT, 4, 0),
        instruction(LOAD, MINOR, CONTEXT, 8, 0),
    ];
    for rule in rules.iter().rev().filter(|rule| rule.access.0 != 0) {
        out.extend(one(rule));
    }
    out.extend(answer(false));
    out
}

/// A rule: tests that jump behind it, then what it decides.
fn one(rule: &Rule) -> Vec<Instruction> {
    let kind = match rule.kind {
        Kind::All => None,
        Kind::Block => Some(1),
        Kind::Character => Some(2),
    };
    let tests = [(KIND, kind), (MAJOR, rule.major), (MINOR, rule.minor)];
    let tests: Vec<_> = tests
        .into_iter()
        .filter_map(|(register, value)| value.map(|value| (register, value)))
        .collect();
    let access = u32::from(rule.access.0);
    let mut decision = match rule.allow {
        true => vec![
            instruction(AND, WANTED, 0, 0, !access),
            instruction(JUMP_DIFFERENT, WANTED, 0, 2, 0),
        ],
        false => vec![
            instruction(COPY, SCRATCH, WANTED, 0, 0),
            instruction(AND, SCRATCH, 0, 0, access),
            instruction(JUMP_EQUAL, SCRATCH, 0, 2, 0),
        ],
    };
    decision.extend(answer(rule.allow));
    // At most 3 tests and 5 instructions: a jump is short.
    let behind = |at: usize| (tests.len() - at - 1 + decision.len()) as i16;
    let mut out: Vec<_> = tests
        .iter()
        .enumerate()
        .map(|(at, (register, value))| {
            instruction(JUMP_DIFFERENT, *register, 0, behind(at), *value)
        })
        .collect();
    out.append(&mut decision);
    out
}

/// `union bpf_attr` of `BPF_PROG_LOAD`, as far as it is used.
#[repr(C, align(8))]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    rest: [u64; 6],
}

/// `union bpf_attr` of `BPF_PROG_ATTACH`.
#[repr(C, align(8))]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
    rest: [u64; 2],
}

/// `union bpf_attr` of `BPF_PROG_QUERY`.
#[repr(C, align(8))]
#[derive(Default)]
struct Query {
    target: u32,
    kind: u32,
    flags: u32,
    attached_flags: u32,
    ids: u64,
    count: u32,
    padding: u32,
    rest: [u64; 4],
}

/// The attach type of device programs.
const CGROUP_DEVICE: u32 = 6;

/// Rules that the kernel has taken, for any number of groups.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads the program of these rules.
    ///
    /// # Errors
    /// `EPERM`: without `CAP_BPF` and `CAP_NET_ADMIN` of the node. `EINVAL`, `ENOSYS`: a kernel
    /// without `CONFIG_CGROUP_BPF`. `E2BIG`: more instructions than the kernel takes.
    pub fn load(rules: &[Rule]) -> Result<Program> {
        const TYPE_CGROUP_DEVICE: u32 = 15;
        load(TYPE_CGROUP_DEVICE, &program(rules)).map(Program)
    }
}

/// Has the kernel take a program of that type.
pub(super) fn load(kind: u32, program: &[Instruction]) -> Result<OwnedFd> {
    const PROG_LOAD: libc::c_int = 5;
    let load = Load {
        kind,
        count: u32::try_from(program.len()).unwrap_or(u32::MAX),
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        rest: [0; 6],
    };
    // SAFETY: the structure has the kernel's layout, zero where it isn't used, and points to
    // `count` instructions and a C string; all live during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const load, size_of::<Load>()) };
    let fd = check("bpf(BPF_PROG_LOAD)", result)?;
    let fd = i32::try_from(fd).map_err(|_| Error::invalid("bpf", "descriptor"))?;
    // SAFETY: the kernel has just given us this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a program beside those that are there already.
pub(super) fn attach(group: &Cgroup, program: &OwnedFd, kind: u32) -> Result<()> {
    const PROG_ATTACH: libc::c_int = 8;
    const ALLOW_MULTI: u32 = 2;
    let attach = Attach {
        target: group.as_fd().as_raw_fd().unsigned_abs(),
        program: program.as_raw_fd().unsigned_abs(),
        kind,
        flags: ALLOW_MULTI,
        rest: [0; 2],
    };
    let (attach, size) = (&raw const attach, size_of::<Attach>());
    // SAFETY: a structure of the kernel's layout, alive during the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_ATTACH, attach, size) };
    check("bpf(BPF_PROG_ATTACH)", result).map(|_| ())
}

impl Cgroup {
    /// Lets the group, and the groups below, use the devices that these rules allow and no others.
    /// What an enclosing group refuses stays refused. It holds until the group is removed.
    ///
    /// # Errors
    /// `EPERM`: without `CAP_BPF` and `CAP_NET_ADMIN` of the node. `EINVAL`, `ENOSYS`: a kernel
    /// without `CONFIG_CGROUP_BPF`. `E2BIG`: 64 programs are attached already, or more
    /// instructions than the kernel takes.
    pub fn allow_devices(&self, rules: &[Rule]) -> Result<()> {
        self.restrict_devices(&Program::load(rules)?)
    }

    /// [`Self::allow_devices`] with rules that are loaded already.
    ///
    /// # Errors
    /// `EPERM`: without `CAP_NET_ADMIN` of the node, or a group around it allows no program below.
    /// `E2BIG`: 64 programs are attached already.
    pub fn restrict_devices(&self, program: &Program) -> Result<()> {
        attach(self, &program.0, CGROUP_DEVICE)
    }

    /// Whether rules of devices are attached to this very group.
    ///
    /// # Errors
    /// `EPERM`: without `CAP_NET_ADMIN` of the node. `EINVAL`, `ENOSYS`: a kernel without
    /// `CONFIG_CGROUP_BPF`.
    pub fn has_device_rules(&self) -> Result<bool> {
        const PROG_QUERY: libc::c_int = 16;
        let mut query = Query {
            target: self.as_fd().as_raw_fd().unsigned_abs(),
            kind: CGROUP_DEVICE,
            ..Query::default()
        };
        let (to, size) = (&raw mut query, size_of::<Query>());
        // SAFETY: a structure of the kernel's layout, alive during the call, with room for no ids:
        // the kernel writes their count and the flags into it and nothing else.
        let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_QUERY, to, size) };
        check("bpf(BPF_PROG_QUERY)", result)?;
        Ok(query.count > 0)
    }
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
