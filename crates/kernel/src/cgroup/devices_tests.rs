// SPDX-License-Identifier: Apache-2.0
//! The program of device rules beside the rules themselves: a small interpreter runs the
//! instructions, and a plain reading of the rules says what must come out.

use proptest::prelude::*;

use super::*;

/// Runs a program as the kernel would.
fn run(program: &[Instruction], kind: u32, access: u32, major: u32, minor: u32) -> bool {
    let context = [access << 16 | kind, major, minor];
    let mut registers = [0u32; 11];
    let mut at = 0usize;
    loop {
        let i = program[at];
        let (to, from) = ((i.registers & 15) as usize, (i.registers >> 4) as usize);
        let value = i.value as u32;
        let mut jump = false;
        match i.code {
            LOAD => registers[to] = context[i.offset as usize / 4],
            AND => registers[to] &= value,
            SHIFT_RIGHT => registers[to] >>= value,
            COPY => registers[to] = registers[from],
            SET => registers[to] = value,
            JUMP_EQUAL => jump = registers[to] == value,
            JUMP_DIFFERENT => jump = registers[to] != value,
            EXIT => return registers[0] == 1,
            other => panic!("unknown instruction {other:#x}"),
        }
        at += 1;
        if jump {
            at += i.offset as usize;
        }
    }
}

/// What the rules say: for each kind of access the last rule that fits.
fn expected(rules: &[Rule], kind: u32, access: u32, major: u32, minor: u32) -> bool {
    [1, 2, 4]
        .iter()
        .filter(|bit| access & **bit != 0)
        .all(|bit| {
            let fits = |rule: &&Rule| {
                u32::from(rule.access.0) & bit != 0
                    && (rule.kind == Kind::All || (rule.kind == Kind::Block) == (kind == 1))
                    && rule.major.is_none_or(|m| m == major)
                    && rule.minor.is_none_or(|m| m == minor)
            };
            rules.iter().rev().find(fits).is_some_and(|rule| rule.allow)
        })
}

fn rule() -> impl Strategy<Value = Rule> {
    let kind = prop_oneof![Just(Kind::All), Just(Kind::Block), Just(Kind::Character)];
    let number = || prop::option::of(0u32..3);
    (any::<bool>(), kind, number(), number(), 0u8..8).prop_map(
        |(allow, kind, major, minor, access)| Rule {
            allow,
            kind,
            major,
            minor,
            access: Access(access),
        },
    )
}

proptest! {
    #[test]
    fn the_program_decides_as_the_rules_read(
        rules in prop::collection::vec(rule(), 0..12),
        kind in 1u32..3,
        access in 1u32..8,
        major in 0u32..4,
        minor in 0u32..4,
    ) {
        let program = program(&rules);
        prop_assert_eq!(
            run(&program, kind, access, major, minor),
            expected(&rules, kind, access, major, minor)
        );
    }
}

#[test]
fn letters_are_kinds_of_access() {
    assert_eq!(Access::parse("rwm"), Some(Access::ALL));
    assert_eq!(Access::parse("r"), Some(Access::READ));
    assert_eq!(Access::parse(""), Some(Access(0)));
    assert_eq!(Access::parse("rx"), None);
}

#[test]
fn without_rules_nothing_is_allowed() {
    assert!(!run(&program(&[]), 2, 2, 1, 3));
}
