// SPDX-License-Identifier: Apache-2.0
//! Compiled filters do what their profiles say: shown by an interpreter of the programs.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::caps::{Capability, CapabilitySet};

/// What the kernel would answer, and after how many instructions.
pub(super) fn run(filter: &Filter, arch: u32, number: u32, arguments: [u64; 6]) -> (u32, usize) {
    run_program(filter.instructions(), arch, number, arguments)
}

pub(super) fn run_program(
    program: &[Instruction],
    arch: u32,
    number: u32,
    arguments: [u64; 6],
) -> (u32, usize) {
    let mut data = Vec::new();
    data.extend(number.to_le_bytes());
    data.extend(arch.to_le_bytes());
    data.extend([0; 8]);
    data.extend(arguments.iter().flat_map(|a| a.to_le_bytes()));
    let (mut at, mut accumulator, mut steps) = (0usize, 0u32, 0);
    loop {
        let i = program[at];
        (at, steps) = (at + 1, steps + 1);
        let holds = match i.code {
            0x20 => {
                let k = i.k as usize;
                accumulator = u32::from_le_bytes(data[k..k + 4].try_into().unwrap());
                continue;
            }
            0x54 => {
                accumulator &= i.k;
                continue;
            }
            0x05 => {
                at += i.k as usize;
                continue;
            }
            0x06 => return (i.k, steps),
            0x15 => accumulator == i.k,
            0x25 => accumulator > i.k,
            0x35 => accumulator >= i.k,
            code => panic!("instruction {code:#x}"),
        };
        at += usize::from(if holds { i.jump_true } else { i.jump_false });
    }
}

fn call(filter: &Filter, name: &str, arguments: [u64; 6]) -> u32 {
    let number = Arch::NATIVE
        .number(name)
        .unwrap_or_else(|| panic!("{name}"));
    run(filter, Arch::NATIVE.audit(), number, arguments).0
}

fn filter(capabilities: CapabilitySet) -> Filter {
    container(capabilities).compile(Arch::NATIVE).unwrap()
}

/// A call's arguments of a mode and flags.
type Arguments = fn(u64, u64) -> [u64; 6];

#[test]
fn no_call_that_takes_a_mode_takes_a_set_id_bit() {
    let profile = Profile {
        default: Action::Allow,
        rules: no_set_id(),
    };
    let filter = profile.compile(Arch::NATIVE).unwrap();
    let create = libc::O_CREAT.unsigned_abs().into();
    let temporary = libc::O_TMPFILE.unsigned_abs().into();
    let calls: [(&str, Arguments); 9] = [
        ("chmod", |mode, _| [1, mode, 0, 0, 0, 0]),
        ("fchmod", |mode, _| [1, mode, 0, 0, 0, 0]),
        ("fchmodat", |mode, _| [1, 1, mode, 0, 0, 0]),
        ("fchmodat2", |mode, _| [1, 1, mode, 0, 0, 0]),
        ("creat", |mode, _| [1, mode, 0, 0, 0, 0]),
        ("mknod", |mode, _| [1, mode, 0, 0, 0, 0]),
        ("mknodat", |mode, _| [1, 1, mode, 0, 0, 0]),
        ("open", |mode, flags| [1, flags, mode, 0, 0, 0]),
        ("openat", |mode, flags| [1, 1, flags, mode, 0, 0]),
    ];
    let there = |(name, _): &(&str, _)| Arch::NATIVE.number(name).is_some();
    for (name, arguments) in calls.into_iter().filter(there) {
        for flags in [create, temporary] {
            for mode in [0o4755, 0o2755, 0o6000, 0o10_4755, 1 << 40 | 0o4755] {
                assert_eq!(call(&filter, name, arguments(mode, flags)), EPERM, "{name}");
            }
            for mode in [0o755, 0o1777, 0o10_0644] {
                assert_eq!(call(&filter, name, arguments(mode, flags)), ALLOW, "{name}");
            }
        }
    }
    // What isn't created has no mode: there may stand anything.
    assert_eq!(call(&filter, "openat", [1, 1, 0, 0o4755, 0, 0]), ALLOW);
    assert_eq!(call(&filter, "openat2", [0; 6]), ENOSYS);
    assert_eq!(call(&filter, "io_uring_setup", [0; 6]), EPERM);
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = Action::Errno(libc::EPERM as u16).value();
const ENOSYS: u32 = Action::Errno(libc::ENOSYS as u16).value();

#[test]
fn the_container_profile_lets_ordinary_programs_run() {
    let filter = filter(CapabilitySet::EMPTY);
    for name in [
        "read",
        "write",
        "openat",
        "mmap",
        "execve",
        "exit_group",
        "futex",
        "ptrace",
        "io_setup",
        "getrandom",
        "statx",
        "landlock_restrict_self",
        "seccomp",
        "setuid",
        "mknodat",
        "prctl",
        "rseq",
        "epoll_pwait2",
        "kill",
        "wait4",
        "socketpair",
        "faccessat2",
        "close_range",
        "mseal",
        "memfd_create",
        "sendfile",
    ] {
        assert_eq!(call(&filter, name, [0; 6]), ALLOW, "{name}");
    }
}

#[test]
fn the_container_profile_refuses_what_leads_out_of_it() {
    let filter = filter(CapabilitySet::CONTAINER);
    for name in [
        "mount",
        "umount2",
        "move_mount",
        "open_tree",
        "mount_setattr",
        "setns",
        "unshare",
        "bpf",
        "keyctl",
        "add_key",
        "request_key",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "pivot_root",
        "kexec_load",
        "init_module",
        "finit_module",
        "reboot",
        "swapon",
        "open_by_handle_at",
        "perf_event_open",
        "userfaultfd",
        "kcmp",
        "acct",
        "settimeofday",
        "quotactl",
        "syslog",
        "pidfd_getfd",
        "process_madvise",
        "fanotify_init",
        "sethostname",
    ] {
        assert_eq!(call(&filter, name, [0; 6]), EPERM, "{name}");
    }
}

#[test]
fn new_namespaces_are_refused_by_their_flags() {
    let filter = filter(CapabilitySet::CONTAINER);
    let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
    assert_eq!(call(&filter, "clone", [thread, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(
        call(&filter, "clone", [libc::SIGCHLD as u64, 0, 0, 0, 0, 0]),
        ALLOW
    );
    for flag in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
    ] {
        assert_eq!(
            call(&filter, "clone", [thread | flag as u64, 0, 0, 0, 0, 0]),
            EPERM
        );
    }
    assert_eq!(call(&filter, "clone3", [0; 6]), ENOSYS);
}

#[test]
fn a_terminal_cannot_be_typed_into_whatever_the_upper_half_says() {
    let filter = filter(CapabilitySet::CONTAINER);
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        for upper in [0, 1 << 32, u64::MAX << 32] {
            assert_eq!(
                call(&filter, "ioctl", [0, request | upper, 0, 0, 0, 0]),
                EPERM
            );
        }
    }
    assert_eq!(
        call(&filter, "ioctl", [0, libc::TIOCGWINSZ, 0, 0, 0, 0]),
        ALLOW
    );
}

#[test]
fn arguments_count_where_they_should() {
    let filter = filter(CapabilitySet::CONTAINER);
    let socket = |family: i32| call(&filter, "socket", [family as u64, 0, 0, 0, 0, 0]);
    assert_eq!(socket(libc::AF_INET6), ALLOW);
    assert_eq!(socket(libc::AF_VSOCK), EPERM);
    let personality = |value: u64| call(&filter, "personality", [value, 0, 0, 0, 0, 0]);
    assert_eq!(personality(0), ALLOW);
    assert_eq!(personality(0xffff_ffff), ALLOW);
    assert_eq!(personality(0x0004_0000), EPERM);
}

#[test]
fn capabilities_open_what_they_are_for() {
    let with = |name: &str| -> CapabilitySet {
        [name.parse::<Capability>().unwrap()].into_iter().collect()
    };
    let admin = filter(with("CAP_SYS_ADMIN"));
    for name in ["mount", "setns", "unshare", "clone3", "pivot_root"] {
        assert_eq!(call(&admin, name, [0; 6]), ALLOW, "{name}");
    }
    assert_eq!(
        call(&admin, "clone", [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]),
        ALLOW
    );
    assert_eq!(call(&admin, "init_module", [0; 6]), EPERM);
    assert_eq!(
        call(&filter(with("CAP_SYS_TIME")), "settimeofday", [0; 6]),
        ALLOW
    );
}

#[test]
fn another_architecture_is_killed_and_x32_is_not_there() {
    let filter = Profile {
        default: Action::Allow,
        rules: Vec::new(),
    }
    .compile(Arch::X86_64)
    .unwrap();
    let i386 = 0x4000_0003;
    assert_eq!(
        run(&filter, i386, 1, [0; 6]).0,
        libc::SECCOMP_RET_KILL_PROCESS
    );
    let audit = Arch::X86_64.audit();
    assert_eq!(run(&filter, audit, 0x4000_0001, [0; 6]).0, ENOSYS);
    assert_eq!(run(&filter, audit, 1, [0; 6]).0, ALLOW);
}

#[test]
fn a_search_takes_few_steps() {
    let filter = filter(CapabilitySet::CONTAINER);
    assert!(
        filter.instructions().len() < 700,
        "{}",
        filter.instructions().len()
    );
    let steps = |number| run(&filter, Arch::NATIVE.audit(), number, [0; 6]).1;
    let most = Arch::NATIVE.numbers().into_iter().map(steps).max().unwrap();
    println!(
        "{} instructions, at most {most} steps",
        filter.instructions().len()
    );
    assert!(most < 30, "{most}");
}

#[test]
fn groups_have_calls_of_every_architecture_and_no_others() {
    for name in groups::names() {
        for call in groups::calls(name).unwrap() {
            let somewhere = [Arch::X86_64, Arch::Aarch64]
                .iter()
                .any(|a| a.number(call).is_some());
            assert!(somewhere, "{call} in {name}");
        }
    }
    let service = groups::calls("@system-service").unwrap();
    assert!(service.contains(&"openat") && !service.contains(&"mount"));
    assert!(groups::calls("@privileged").unwrap().contains(&"reboot"));
    assert_eq!(groups::calls("@nothing"), None);
}

#[test]
fn what_is_unknown_is_named_all_at_once() {
    let profile = Profile::deny_list(["mount", "mont", "oopen"], Action::Kill);
    let error = profile.compile(Arch::X86_64).unwrap_err().to_string();
    assert!(
        error.contains("mont, oopen") && error.contains("X86_64"),
        "{error}"
    );
    let profile = Profile::deny_list(["open"], Action::Kill);
    assert!(profile.compile(Arch::X86_64).is_ok());
    assert!(
        profile
            .compile(Arch::Aarch64)
            .unwrap_err()
            .to_string()
            .contains("open")
    );
    let profile = Profile::deny_list(["@mout"], Action::Kill);
    let error = profile.compile(Arch::X86_64).unwrap_err().to_string();
    assert!(
        error.contains("@mout") && error.contains("@mount"),
        "{error}"
    );
}

#[test]
fn what_the_kernel_would_not_take_is_refused_here() {
    let profile = Profile {
        default: Action::Errno(5000),
        rules: Vec::new(),
    };
    assert!(matches!(
        profile.compile(Arch::X86_64),
        Err(ProfileError::Invalid(_))
    ));
    for bytes in [&[][..], &[0; 7], &[0; 8 * 4097]] {
        assert_eq!(install(bytes, false).unwrap_err().errno(), libc::EINVAL);
    }
    let bytes = filter(CapabilitySet::EMPTY).to_bytes();
    assert_eq!(
        Instruction::read_all(&bytes).unwrap(),
        filter(CapabilitySet::EMPTY).instructions()
    );
}

fn comparison() -> impl Strategy<Value = Comparison> {
    use Comparison::*;
    prop::sample::select(vec![
        Equal,
        NotEqual,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
    ])
}

fn edge() -> impl Strategy<Value = u64> {
    let near = |base: u64| (0..3u64).prop_map(move |d| base.wrapping_add(d).wrapping_sub(1));
    prop_oneof![
        near(0),
        near(5),
        near(1 << 32),
        near(5 << 32),
        near(u64::MAX),
        any::<u64>()
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let mask = prop_oneof![Just(u64::MAX), Just(0xffff_ffff), any::<u64>()];
    (0..6u8, mask, comparison(), edge()).prop_map(|(argument, mask, comparison, value)| Condition {
        argument,
        mask,
        comparison,
        value,
    })
}

fn action() -> impl Strategy<Value = Action> {
    let errno = (1..4095u16).prop_map(Action::Errno);
    prop_oneof![
        Just(Action::Allow),
        Just(Action::Kill),
        Just(Action::Log),
        errno
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let names: Vec<_> = Arch::X86_64
        .numbers()
        .into_iter()
        .filter_map(|n| Arch::X86_64.name(n))
        .collect();
    let names = prop::collection::vec(prop::sample::select(names), 1..40);
    (names, prop::collection::vec(condition(), 0..4), action()).prop_map(
        |(names, conditions, action)| Rule {
            names: names.into_iter().map(str::to_owned).collect(),
            conditions,
            action,
        },
    )
}

fn holds(c: &Condition, arguments: &[u64; 6]) -> bool {
    let argument = arguments[usize::from(c.argument)] & c.mask;
    match c.comparison {
        Comparison::Equal => argument == c.value,
        Comparison::NotEqual => argument != c.value,
        Comparison::Less => argument < c.value,
        Comparison::LessOrEqual => argument <= c.value,
        Comparison::Greater => argument > c.value,
        Comparison::GreaterOrEqual => argument >= c.value,
    }
}

/// The meaning of a profile, said as plainly as it can be.
fn meaning(profile: &Profile, name: &str, arguments: &[u64; 6]) -> Action {
    let applies = |rule: &&Rule| {
        rule.names.iter().any(|n| n == name) && rule.conditions.iter().all(|c| holds(c, arguments))
    };
    profile
        .rules
        .iter()
        .find(applies)
        .map_or(profile.default, |rule| rule.action)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_program_means_what_its_profile_means(
        rules in prop::collection::vec(rule(), 0..12),
        default in action(),
        argument_sets in prop::collection::vec(prop::array::uniform6(edge()), 1..4),
    ) {
        let profile = Profile { default, rules };
        let filter = match profile.compile(Arch::X86_64) {
            // More than the kernel takes (`BPF_MAXINSNS`) is refused, and only that.
            Err(ProfileError::TooLong(length)) => {
                prop_assert!(length > 4096);
                return Ok(());
            }
            compiled => compiled.unwrap(),
        };
        let mut seen = HashSet::new();
        for number in Arch::X86_64.numbers() {
            let name = Arch::X86_64.name(number).unwrap();
            for arguments in &argument_sets {
                let expected = meaning(&profile, name, arguments).value();
                let (got, _) = run(&filter, Arch::X86_64.audit(), number, *arguments);
                prop_assert_eq!(got, expected, "{} {:?}", name, arguments);
                seen.insert(got);
            }
        }
        // A number without a name is never allowed by anything but the default.
        let (got, _) = run(&filter, Arch::X86_64.audit(), 1999, [0; 6]);
        prop_assert_eq!(got, default.value());
    }
}

/// The thread's own: an agent beside it decides on a call that waits, and the rest of the profile
/// counts once the listener is in other hands.
#[test]
fn a_listener_decides_on_calls_of_another_thread() {
    use document::{Document, Entry};
    let entry = |name: &str, action: &str, errno| Entry {
        names: vec![name.to_owned()],
        action: action.to_owned(),
        errno,
        ..Entry::default()
    };
    let document = Document {
        default_action: "SCMP_ACT_ALLOW".into(),
        has_listener: true,
        entries: vec![
            entry("mkdirat", "SCMP_ACT_NOTIFY", None),
            entry("mkdir", "SCMP_ACT_NOTIFY", None),
            entry("socketpair", "SCMP_ACT_ERRNO", Some(71)),
        ],
        ..Document::default()
    };
    let apart = document.compile_apart(|_| Vec::new()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let folder = made.clone();
    let (give, given) = std::sync::mpsc::channel();
    let pair = || crate::seqpacket::pair(crate::seqpacket::Mode::Blocking);
    let filtered = std::thread::spawn(move || {
        crate::process::set_no_new_privileges().unwrap();
        let first = apart.notifying.unwrap();
        let listener = install_with(&first.program, first.options).unwrap();
        pair().expect("what the rest refuses goes on until it is there");
        install_with(&apart.rest.program, apart.rest.options).unwrap();
        assert!(pair().unwrap_err().is(71));
        give.send(listener.unwrap()).unwrap();
        [(); 2].map(|()| std::fs::create_dir(&folder).map_err(|e| e.raw_os_error()))
    });
    let agent = given.recv().unwrap();
    for word in [listener::Word::Fail(libc::EXDEV), listener::Word::GoOn] {
        let call = listener::receive(&agent).unwrap();
        let name = Arch::NATIVE.name(u32::try_from(call.number).unwrap());
        assert!(name.is_some_and(|name| name.starts_with("mkdir")));
        assert!(call.pid > 0 && !made.exists());
        listener::answer(&agent, call.id, word).unwrap();
    }
    let outcome = filtered.join().unwrap();
    assert_eq!(outcome, [Err(Some(libc::EXDEV)), Ok(())]);
    assert!(made.exists());
}
