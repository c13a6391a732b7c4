// SPDX-License-Identifier: Apache-2.0
//! Programs for several architectures, run by the interpreter of [`super::tests`].

use super::tests::run;
use super::*;

/// Rules for several architectures: each call is judged by the table of its own.
#[test]
fn one_program_judges_the_calls_of_several_architectures() {
    let refuse = Action::Errno(libc::EPERM as u16);
    let profile = |names: &[&str]| Profile::deny_list(names.iter().copied(), refuse);
    let profiles = [
        (Arch::X86_64, profile(&["mkdir"])),
        (Arch::X86, profile(&["rmdir"])),
        (Arch::X32, profile(&["ioctl"])),
    ];
    let filter = compile_all(&profiles, None).unwrap();
    let refused = refuse.value();
    let allowed = Action::Allow.value();
    for (arch, profile) in &profiles {
        for name in ["mkdir", "rmdir", "ioctl", "read"] {
            let number = arch.number(name).unwrap();
            let answer = run(&filter, arch.audit(), number, [0; 6]).0;
            let named = profile.rules[0].names.iter().any(|n| n == name);
            assert_eq!(
                answer,
                if named { refused } else { allowed },
                "{arch:?} {name}"
            );
        }
    }
    let foreign = run(&filter, Arch::Aarch64.audit(), 0, [0; 6]).0;
    assert_eq!(foreign, Action::Kill.value());
}

#[test]
fn a_call_that_the_profile_is_too_old_for_is_unknown() {
    let profile = Profile::allow_list(["read", "openat2"], Action::Errno(libc::EPERM as u16));
    let enosys = Action::Errno(libc::ENOSYS as u16);
    let filter = compile_all(&[(Arch::X86_64, profile)], Some(enosys)).unwrap();
    let answer = |number| run(&filter, Arch::X86_64.audit(), number, [0; 6]).0;
    let newest = Arch::X86_64.number("openat2").unwrap();
    assert_eq!(answer(newest), Action::Allow.value());
    assert_eq!(
        answer(newest - 1),
        Action::Errno(libc::EPERM as u16).value()
    );
    assert_eq!(answer(newest + 1), enosys.value());
}

#[test]
fn x32_calls_have_their_bit_and_some_a_number_of_their_own() {
    let of = |name| Arch::X32.number(name).unwrap();
    assert_eq!(of("read"), 0x4000_0000);
    assert_eq!(of("execve"), 0x4000_0000 | 520);
    assert_eq!(Arch::X32.name(0x4000_0000 | 520), Some("execve"));
    assert_eq!(Arch::X32.name(0), None);
}
