// SPDX-License-Identifier: Apache-2.0
//! From a profile to a BPF program: names to numbers, numbers to ranges, ranges to a search tree.
//! Pure.

use std::collections::BTreeMap;

use super::{Action, Arch, Comparison, Condition, MAX_INSTRUCTIONS, Profile, ProfileError, groups};

/// One instruction of classic BPF: the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Operation, size and operands (`BPF_*`).
    pub code: u16,
    /// How many instructions a jump skips where its test holds.
    pub jump_true: u8,
    /// How many instructions a jump skips where its test doesn't hold.
    pub jump_false: u8,
    /// A constant: what is compared, loaded from or returned.
    pub k: u32,
}

impl Instruction {
    /// Reads a whole program; `None` where it isn't 1 to 4,096 instructions.
    pub(super) fn read_all(bytes: &[u8]) -> Option<Vec<Instruction>> {
        let count = bytes.len() / 8;
        if !bytes.len().is_multiple_of(8) || count == 0 || count > MAX_INSTRUCTIONS {
            return None;
        }
        let read = |chunk: &[u8]| match chunk {
            [c0, c1, jump_true, jump_false, k @ ..] => Some(Instruction {
                code: u16::from_ne_bytes([*c0, *c1]),
                jump_true: *jump_true,
                jump_false: *jump_false,
                k: u32::from_ne_bytes(k.try_into().ok()?),
            }),
            _ => None,
        };
        bytes.chunks_exact(8).map(read).collect()
    }
}

/// A compiled profile: the instructions that the kernel runs for each call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    pub(super) instructions: Vec<Instruction>,
}

impl Filter {
    /// The instructions in order, at most [`MAX_INSTRUCTIONS`].
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The program as [`super::install`] takes it: `struct sock_filter[]` of this machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = |i: &Instruction| {
            let [c0, c1] = i.code.to_ne_bytes();
            let [k0, k1, k2, k3] = i.k.to_ne_bytes();
            [c0, c1, i.jump_true, i.jump_false, k0, k1, k2, k3]
        };
        self.instructions.iter().flat_map(bytes).collect()
    }
}

// Offsets in `struct seccomp_data`, little-endian.
pub(super) const OFFSET_NUMBER: u32 = 0;
pub(super) const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;
/// The bit of x32 calls in the number.
pub(super) const X32_BIT: u32 = 0x4000_0000;

pub(super) const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
pub(super) const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
pub(super) const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
pub(super) const JUMP_GREATER_OR_EQUAL: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K

pub(super) const fn plain(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        jump_true: 0,
        jump_false: 0,
        k,
    }
}

pub(super) const fn branch(code: u16, k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction {
        code,
        jump_true,
        jump_false,
        k,
    }
}

pub(super) const fn give(action: Action) -> Instruction {
    plain(RETURN, action.value())
}

/// Conditional actions, in order.
type Cases = Vec<(Vec<Condition>, Action)>;

/// The decision about one call: conditional cases in order, then the action for all others.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Decision {
    cases: Cases,
    last: Action,
}

pub(super) fn compile(profile: &Profile, arch: Arch) -> Result<Filter, ProfileError> {
    let tree = search(profile, arch, None)?;
    let mut out = vec![
        plain(LOAD, OFFSET_ARCH),
        branch(JUMP_EQUAL, arch.audit(), 1, 0),
        give(Action::Kill),
        plain(LOAD, OFFSET_NUMBER),
    ];
    if arch == Arch::X86_64 {
        out.push(branch(JUMP_GREATER_OR_EQUAL, X32_BIT, 0, 1));
        out.push(give(Action::Errno(libc::ENOSYS as u16)));
    }
    out.extend(tree);
    if out.len() > MAX_INSTRUCTIONS {
        return Err(ProfileError::TooLong(out.len()));
    }
    Ok(Filter { instructions: out })
}

/// The tree of a profile, for a call whose number is in the accumulator. `unknown` is the action
/// beyond the highest number that the profile has a rule for.
pub(super) fn search(
    profile: &Profile,
    arch: Arch,
    unknown: Option<Action>,
) -> Result<Vec<Instruction>, ProfileError> {
    check_bounds(profile)?;
    let decisions = decide(profile, arch)?;
    let mut ranges = ranges(&decisions, profile.default);
    let highest = decisions.keys().next_back();
    if let (Some(action), Some(highest)) = (unknown, highest) {
        let beyond = highest.saturating_add(1);
        ranges.retain(|(start, _)| *start < beyond);
        ranges.push((
            beyond,
            Decision {
                cases: Vec::new(),
                last: action,
            },
        ));
    }
    Ok(tree(&ranges))
}

fn check_bounds(profile: &Profile) -> Result<(), ProfileError> {
    let actions = profile
        .rules
        .iter()
        .map(|r| r.action)
        .chain([profile.default]);
    if actions
        .into_iter()
        .any(|a| matches!(a, Action::Errno(e) if e > 4095))
    {
        return Err(ProfileError::Invalid("an errno is at most 4095"));
    }
    let mut conditions = profile.rules.iter().flat_map(|r| &r.conditions);
    if conditions.any(|c| c.argument > 5) {
        return Err(ProfileError::Invalid("a call's arguments are 0 to 5"));
    }
    // A condition is at most 7 instructions: far jumps out of a case are then never needed.
    if profile.rules.iter().any(|r| r.conditions.len() > 6) {
        return Err(ProfileError::Invalid("a rule has at most 6 conditions"));
    }
    Ok(())
}

/// The numbers that a rule is for; names that aren't there are collected.
fn numbers(names: &[String], arch: Arch, unknown: &mut (Vec<String>, Vec<String>)) -> Vec<u32> {
    let mut out = Vec::new();
    for name in names {
        if name.starts_with('@') {
            match groups::calls(name) {
                // A group is for all architectures: what this one hasn't got can't be called.
                Some(calls) => out.extend(calls.iter().filter_map(|call| arch.number(call))),
                None => unknown.1.push(name.clone()),
            }
        } else {
            match arch.number(name) {
                Some(number) => out.push(number),
                None => unknown.0.push(name.clone()),
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

fn decide(profile: &Profile, arch: Arch) -> Result<BTreeMap<u32, Decision>, ProfileError> {
    let mut unknown = (Vec::new(), Vec::new());
    let mut open: BTreeMap<u32, (Cases, Option<Action>)> = BTreeMap::new();
    for rule in &profile.rules {
        for number in numbers(&rule.names, arch, &mut unknown) {
            let (cases, last) = open.entry(number).or_default();
            match last {
                // An earlier rule without conditions counts always.
                Some(_) => {}
                None if rule.conditions.is_empty() => *last = Some(rule.action),
                None => cases.push((rule.conditions.clone(), rule.action)),
            }
        }
    }
    let (calls, groups) = unknown;
    if !groups.is_empty() {
        return Err(ProfileError::UnknownGroups { names: groups });
    }
    if !calls.is_empty() {
        return Err(ProfileError::UnknownCalls { arch, names: calls });
    }
    let close = |(number, (cases, last)): (u32, (Cases, Option<Action>))| {
        (
            number,
            Decision {
                cases,
                last: last.unwrap_or(profile.default),
            },
        )
    };
    Ok(open.into_iter().map(close).collect())
}

/// Where each decision begins, from 0 up, neighbours being different.
fn ranges(decisions: &BTreeMap<u32, Decision>, default: Action) -> Vec<(u32, Decision)> {
    let other = Decision {
        cases: Vec::new(),
        last: default,
    };
    let mut out: Vec<(u32, Decision)> = Vec::new();
    let mut put = |start: u32, decision: &Decision| {
        if out.last().is_none_or(|(_, before)| before != decision) {
            out.push((start, decision.clone()));
        }
    };
    let mut next = 0;
    for (number, decision) in decisions {
        if *number > next {
            put(next, &other);
        }
        put(*number, decision);
        next = number.saturating_add(1);
    }
    put(next, &other);
    out
}

/// A search tree over the ranges; the number is in the accumulator.
fn tree(ranges: &[(u32, Decision)]) -> Vec<Instruction> {
    let (left, right) = ranges.split_at(ranges.len() / 2);
    match (left.is_empty(), right.first()) {
        (_, None) => Vec::new(),
        (true, Some((_, decision))) => leaf(decision),
        (false, Some((middle, _))) => {
            let (left, right) = (tree(left), tree(right));
            let mut out = Vec::with_capacity(left.len() + right.len() + 2);
            match u8::try_from(left.len()) {
                Ok(skip) => out.push(branch(JUMP_GREATER_OR_EQUAL, *middle, skip, 0)),
                Err(_) => {
                    // Too far for a branch: a jump behind it goes the long way.
                    out.push(branch(JUMP_GREATER_OR_EQUAL, *middle, 0, 1));
                    out.push(plain(JUMP, u32::try_from(left.len()).unwrap_or(u32::MAX)));
                }
            }
            out.extend(left);
            out.extend(right);
            out
        }
    }
}

fn leaf(decision: &Decision) -> Vec<Instruction> {
    let mut out = Vec::new();
    for (conditions, action) in &decision.cases {
        out.extend(case(conditions, *action));
    }
    out.push(give(decision.last));
    out
}

/// All conditions hold: the action is returned; else it falls through behind.
fn case(conditions: &[Condition], action: Action) -> Vec<Instruction> {
    let mut out = vec![give(action)];
    for condition in conditions.iter().rev() {
        // What is left to skip where this condition fails: at most 6 × 7 + 1.
        let fail = u8::try_from(out.len()).unwrap_or(u8::MAX);
        let mut test = self::test(condition, fail);
        test.append(&mut out);
        out = test;
    }
    out
}

/// Falls through where the condition holds, skips `fail` instructions behind itself where it
/// doesn't.
fn test(condition: &Condition, fail: u8) -> Vec<Instruction> {
    let offset = OFFSET_ARGUMENTS + 8 * u32::from(condition.argument);
    let (low, high) = halves(condition.value);
    let (mask_low, mask_high) = halves(condition.mask);
    let mut load_high = vec![plain(LOAD, offset + 4)];
    let mut load_low = vec![plain(LOAD, offset)];
    if mask_high != u32::MAX {
        load_high.push(plain(AND, mask_high));
    }
    if mask_low != u32::MAX {
        load_low.push(plain(AND, mask_low));
    }
    let lows = u8::try_from(load_low.len()).unwrap_or(0);
    // Behind the last test, "holds" skips nothing and "fails" skips `fail`; from the high half's
    // test the loads of the low half and its test lie between.
    let ahead = lows + 1;
    use Comparison as C;
    let (high_tests, low_test) = match condition.comparison {
        C::Equal => (
            vec![branch(JUMP_EQUAL, high, 0, ahead + fail)],
            branch(JUMP_EQUAL, low, 0, fail),
        ),
        C::NotEqual => (
            vec![branch(JUMP_EQUAL, high, 0, ahead)],
            branch(JUMP_EQUAL, low, fail, 0),
        ),
        C::Greater => (
            upper(high, ahead, 0, fail),
            branch(JUMP_GREATER, low, 0, fail),
        ),
        C::GreaterOrEqual => (
            upper(high, ahead, 0, fail),
            branch(JUMP_GREATER_OR_EQUAL, low, 0, fail),
        ),
        C::Less => (
            upper(high, ahead, fail, 0),
            branch(JUMP_GREATER_OR_EQUAL, low, fail, 0),
        ),
        C::LessOrEqual => (
            upper(high, ahead, fail, 0),
            branch(JUMP_GREATER, low, fail, 0),
        ),
    };
    let mut out = load_high;
    out.extend(high_tests);
    out.extend(load_low);
    out.push(low_test);
    out
}

/// Decides by the high half where it is greater or less; goes on to the low half where it is equal.
fn upper(high: u32, ahead: u8, greater: u8, less: u8) -> Vec<Instruction> {
    vec![
        branch(JUMP_GREATER, high, 1 + ahead + greater, 0),
        branch(JUMP_EQUAL, high, 0, ahead + less),
    ]
}

const fn halves(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}
