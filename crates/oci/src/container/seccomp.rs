// SPDX-License-Identifier: Apache-2.0
//! `linux.seccomp`, turned into the profiles that `kernel::seccomp` compiles: one for each
//! architecture. Pure.
//!
//! As with libseccomp, names that an architecture hasn't got are passed over. 32-bit x86 has two
//! calls that stand for many (`socketcall`, `ipc`): a rule for `socket` is also one for
//! `socketcall` with that number, as far as the rule looks at no other argument.

use kernel::seccomp::{
    Action, Arch, Comparison, Condition, InstallOptions, Profile, Rule, compile_all,
};

use crate::config::linux::{Seccomp, SeccompArgument, SeccompRule};
use crate::error::{Doing, Result, refuse};

/// The actions, by the specification's words.
pub(crate) const ACTIONS: [&str; 9] = [
    "SCMP_ACT_ALLOW",
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_LOG",
    "SCMP_ACT_NOTIFY",
    "SCMP_ACT_TRACE",
    "SCMP_ACT_TRAP",
];

/// The comparisons.
pub(crate) const OPERATORS: [&str; 7] = [
    "SCMP_CMP_EQ",
    "SCMP_CMP_GE",
    "SCMP_CMP_GT",
    "SCMP_CMP_LE",
    "SCMP_CMP_LT",
    "SCMP_CMP_MASKED_EQ",
    "SCMP_CMP_NE",
];

/// The flags.
pub(crate) const FLAGS: [&str; 4] = [
    "SECCOMP_FILTER_FLAG_LOG",
    "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
    "SECCOMP_FILTER_FLAG_TSYNC",
    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
];

/// The architectures that a profile may name; those of other machines are passed over.
pub(crate) const ARCHITECTURES: [(&str, Arch); 4] = [
    ("SCMP_ARCH_AARCH64", Arch::Aarch64),
    ("SCMP_ARCH_X32", Arch::X32),
    ("SCMP_ARCH_X86", Arch::X86),
    ("SCMP_ARCH_X86_64", Arch::X86_64),
];

/// Architectures of other machines.
const FOREIGN: [&str; 18] = [
    "SCMP_ARCH_ARM",
    "SCMP_ARCH_LOONGARCH64",
    "SCMP_ARCH_M68K",
    "SCMP_ARCH_MIPS",
    "SCMP_ARCH_MIPS64",
    "SCMP_ARCH_MIPS64N32",
    "SCMP_ARCH_MIPSEL",
    "SCMP_ARCH_MIPSEL64",
    "SCMP_ARCH_MIPSEL64N32",
    "SCMP_ARCH_PARISC",
    "SCMP_ARCH_PARISC64",
    "SCMP_ARCH_PPC",
    "SCMP_ARCH_PPC64",
    "SCMP_ARCH_PPC64LE",
    "SCMP_ARCH_RISCV64",
    "SCMP_ARCH_S390",
    "SCMP_ARCH_S390X",
    "SCMP_ARCH_SH",
];

/// A filter, ready to be installed.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) program: Vec<u8>,
    pub(crate) options: InstallOptions,
}

/// Compiles what the configuration says.
pub(crate) fn compile(seccomp: &Seccomp) -> Result<Filter> {
    convert(seccomp).doing("linux.seccomp")
}

fn convert(seccomp: &Seccomp) -> Result<Filter> {
    let default = action(&seccomp.default_action, seccomp.default_errno_ret)?;
    if default == Action::Notify {
        return refuse("defaultAction: SCMP_ACT_NOTIFY cannot be used as default action");
    }
    let architectures = architectures(&seccomp.architectures)?;
    let mut notifies = false;
    let mut profiles = Vec::new();
    for arch in architectures {
        let mut rules = Vec::new();
        for rule in &seccomp.syscalls {
            let action = action(&rule.action, rule.errno_ret)?;
            if action == default {
                continue;
            }
            notifies |= action == Action::Notify;
            // The process itself needs it to hand the listener over.
            if action == Action::Notify && rule.names.iter().any(|name| name == "write") {
                return refuse("SCMP_ACT_NOTIFY cannot be used for the write syscall");
            }
            self::rules(arch, rule, action, &mut rules)?;
        }
        profiles.push((arch, Profile { default, rules }));
    }
    if notifies && seccomp.listener_path.is_empty() {
        return refuse("listenerPath: SCMP_ACT_NOTIFY needs one");
    }
    // A profile says nothing of calls that are newer than itself; programs fall back on ENOSYS.
    let enosys = Action::Errno(38);
    let unknown = matches!(
        default,
        Action::Errno(_) | Action::Kill | Action::KillThread
    );
    let unknown = (unknown && default != enosys).then_some(enosys);
    match compile_all(&profiles, unknown) {
        Ok(filter) => Ok(Filter {
            program: filter.to_bytes(),
            options: said(options(seccomp, notifies)?),
        }),
        Err(error) => refuse(error.to_string()),
    }
}

/// Says the flags, as numbers of seccomp(2), where more is to be logged.
fn said(options: InstallOptions) -> InstallOptions {
    let flags = u32::from(options.log) << 1
        | u32::from(options.allow_speculation) << 2
        | u32::from(options.listener) << 3
        | u32::from(options.wait_killable) << 5;
    crate::log::debug(format!("seccomp filter flags: {flags}"));
    options
}

fn options(seccomp: &Seccomp, listener: bool) -> Result<InstallOptions> {
    let mut options = InstallOptions {
        listener,
        // What runc and crun set where a profile has no flags.
        allow_speculation: seccomp.flags.is_none(),
        ..InstallOptions::default()
    };
    for flag in seccomp.flags.iter().flatten() {
        match flag.as_str() {
            "SECCOMP_FILTER_FLAG_LOG" => options.log = true,
            "SECCOMP_FILTER_FLAG_SPEC_ALLOW" => options.allow_speculation = true,
            // The process has one thread.
            "SECCOMP_FILTER_FLAG_TSYNC" => {}
            "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV" => options.wait_killable = listener,
            other => return refuse(format!("seccomp flags: unknown flag {other:?}")),
        }
    }
    Ok(options)
}

/// Without any it is the machine's own.
fn architectures(words: &[String]) -> Result<Vec<Arch>> {
    let mut out = Vec::new();
    for word in words {
        let known = ARCHITECTURES.iter().find(|(known, _)| known == word);
        match known {
            Some((_, arch)) if !out.contains(arch) => out.push(*arch),
            Some(_) => {}
            None if FOREIGN.contains(&word.as_str()) => {}
            None => return refuse(format!("architectures: unknown architecture {word:?}")),
        }
    }
    // The machine's own is always in it.
    if !out.contains(&Arch::NATIVE) {
        out.push(Arch::NATIVE);
    }
    Ok(out)
}

fn action(word: &str, errno: Option<u32>) -> Result<Action> {
    let number = |default: u16| match errno.map(u16::try_from) {
        None => Ok(default),
        Some(Ok(number)) if number <= 4095 => Ok(number),
        Some(_) => refuse("errnoRet: at most 4095"),
    };
    let plain = match word {
        "SCMP_ACT_ERRNO" => return number(1).map(Action::Errno),
        "SCMP_ACT_TRACE" => return number(1).map(Action::Trace),
        "SCMP_ACT_ALLOW" => Action::Allow,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_KILL_PROCESS" => Action::Kill,
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_NOTIFY" => Action::Notify,
        "SCMP_ACT_TRAP" => Action::Trap,
        other => return refuse(format!("unknown action {other:?}")),
    };
    match errno {
        Some(_) => refuse(format!("errnoRet: {word} has no errno")),
        None => Ok(plain),
    }
}

/// The rules of one entry for one architecture.
fn rules(arch: Arch, rule: &SeccompRule, action: Action, out: &mut Vec<Rule>) -> Result<()> {
    let names = rule.names.iter().filter(|name| arch.number(name).is_some());
    let names: Vec<String> = names.cloned().collect();
    let conditions = rule.args.iter().map(condition);
    let conditions: Vec<Condition> = conditions.collect::<Result<_>>()?;
    // Two conditions on one argument can't be told to the kernel's library as one rule: there, and
    // so here, each of them alone is enough.
    let twice = conditions.iter().enumerate().any(|(at, one)| {
        let mut before = conditions.iter().take(at);
        before.any(|other| other.argument == one.argument)
    });
    let groups: Vec<Vec<Condition>> = match twice {
        true => conditions.into_iter().map(|one| vec![one]).collect(),
        false => vec![conditions],
    };
    for conditions in groups {
        if !names.is_empty() {
            out.push(Rule {
                names: names.clone(),
                conditions,
                action,
            });
        }
    }
    if arch == Arch::X86 && rule.args.is_empty() {
        out.extend(names.iter().filter_map(|name| multiplexed(name, action)));
    }
    Ok(())
}

fn condition(argument: &SeccompArgument) -> Result<Condition> {
    let (comparison, mask, value) = match argument.op.as_str() {
        "SCMP_CMP_EQ" => (Comparison::Equal, u64::MAX, argument.value),
        "SCMP_CMP_NE" => (Comparison::NotEqual, u64::MAX, argument.value),
        "SCMP_CMP_LT" => (Comparison::Less, u64::MAX, argument.value),
        "SCMP_CMP_LE" => (Comparison::LessOrEqual, u64::MAX, argument.value),
        "SCMP_CMP_GT" => (Comparison::Greater, u64::MAX, argument.value),
        "SCMP_CMP_GE" => (Comparison::GreaterOrEqual, u64::MAX, argument.value),
        "SCMP_CMP_MASKED_EQ" => (Comparison::Equal, argument.value, argument.value_two),
        other => return refuse(format!("args: unknown operator {other:?}")),
    };
    match u8::try_from(argument.index) {
        Ok(index @ 0..=5) => Ok(Condition {
            argument: index,
            mask,
            comparison,
            value,
        }),
        _ => refuse("args: a call's arguments are 0 to 5"),
    }
}

/// 32-bit calls that are numbers of `socketcall` and `ipc`, from 1 (linux/net.h, linux/ipc.h).
const SOCKET_CALLS: [&str; 20] = [
    "socket",
    "bind",
    "connect",
    "listen",
    "accept",
    "getsockname",
    "getpeername",
    "socketpair",
    "send",
    "recv",
    "sendto",
    "recvfrom",
    "shutdown",
    "setsockopt",
    "getsockopt",
    "sendmsg",
    "recvmsg",
    "accept4",
    "recvmmsg",
    "sendmmsg",
];
const IPC_CALLS: [(&str, u32); 12] = [
    ("semop", 1),
    ("semget", 2),
    ("semctl", 3),
    ("semtimedop", 4),
    ("msgsnd", 11),
    ("msgrcv", 12),
    ("msgget", 13),
    ("msgctl", 14),
    ("shmat", 21),
    ("shmdt", 22),
    ("shmget", 23),
    ("shmctl", 24),
];

fn multiplexed(name: &str, action: Action) -> Option<Rule> {
    let socket = SOCKET_CALLS.iter().position(|call| *call == name);
    let socket = socket.and_then(|at| u32::try_from(at + 1).ok());
    let ipc = IPC_CALLS.iter().find(|(call, _)| *call == name);
    let (call, number) = match (socket, ipc) {
        (Some(number), _) => ("socketcall", number),
        (None, Some((_, number))) => ("ipc", *number),
        (None, None) => return None,
    };
    let condition = Condition::on_u32(0, Comparison::Equal, number);
    Some(Rule::new(action, [call]).when(condition))
}

#[cfg(test)]
#[path = "seccomp_tests.rs"]
mod tests;
