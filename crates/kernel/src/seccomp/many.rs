// SPDX-License-Identifier: Apache-2.0
//! One program for the calls of several architectures: it looks at the architecture first, then
//! goes to that one's search tree. Pure.

use super::compile::{
    Instruction, JUMP, JUMP_EQUAL, JUMP_GREATER_OR_EQUAL, LOAD, OFFSET_ARCH, OFFSET_NUMBER,
    X32_BIT, branch, give, plain, search,
};
use super::{Action, Arch, Filter, MAX_INSTRUCTIONS, Profile, ProfileError};

pub(super) fn compile(
    profiles: &[(Arch, Profile)],
    unknown: Option<Action>,
) -> Result<Filter, ProfileError> {
    if profiles.is_empty() {
        return Err(ProfileError::Invalid("a filter is for an architecture"));
    }
    let of = |arch: Arch| profiles.iter().find(|(known, _)| *known == arch);
    let tree = |arch: Arch| match of(arch) {
        Some((_, profile)) => search(profile, arch, unknown).map(Some),
        None => Ok(None),
    };
    let mut out = vec![plain(LOAD, OFFSET_ARCH)];
    let wide = wide(tree(Arch::X86_64)?, tree(Arch::X32)?);
    section(&mut out, Arch::X86_64, wide);
    section(&mut out, Arch::X86, tree(Arch::X86)?);
    section(&mut out, Arch::Aarch64, tree(Arch::Aarch64)?);
    out.push(give(Action::Kill));
    if out.len() > MAX_INSTRUCTIONS {
        return Err(ProfileError::TooLong(out.len()));
    }
    Ok(Filter { instructions: out })
}

/// x86_64 and x32 are one architecture to filters, apart by a bit of the number.
fn wide(
    plain_calls: Option<Vec<Instruction>>,
    x32: Option<Vec<Instruction>>,
) -> Option<Vec<Instruction>> {
    if plain_calls.is_none() && x32.is_none() {
        return None;
    }
    let enosys = Action::Errno(libc::ENOSYS as u16);
    let x32 = x32.unwrap_or_else(|| vec![give(enosys)]);
    let own = plain_calls.unwrap_or_else(|| vec![give(Action::Kill)]);
    let mut out = vec![branch(JUMP_GREATER_OR_EQUAL, X32_BIT, 0, 1)];
    out.push(skip(own.len()));
    out.extend(own);
    out.extend(x32);
    Some(out)
}

/// Falls through behind what is added where the architecture is another one.
fn section(out: &mut Vec<Instruction>, arch: Arch, tree: Option<Vec<Instruction>>) {
    let Some(tree) = tree else { return };
    out.push(branch(JUMP_EQUAL, arch.audit(), 1, 0));
    out.push(skip(tree.len() + 1));
    out.push(plain(LOAD, OFFSET_NUMBER));
    out.extend(tree);
}

fn skip(count: usize) -> Instruction {
    plain(JUMP, u32::try_from(count).unwrap_or(u32::MAX))
}
