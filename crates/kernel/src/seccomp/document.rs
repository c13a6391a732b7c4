// SPDX-License-Identifier: Apache-2.0
//! Profiles in the words that container engines and the OCI runtime specification share
//! (`SCMP_ACT_ERRNO`, `SCMP_CMP_EQ`, ...), turned into the profiles that [`super::compile_all`]
//! compiles: one for each architecture. Pure. Who read the words, and from what, is the callers'.
//!
//! As with libseccomp, names that an architecture hasn't got are passed over. 32-bit x86 has two
//! calls that stand for many (`socketcall`, `ipc`): a rule for `socket` is also one for
//! `socketcall` with that number, as far as the rule looks at no other argument.

use super::{Action, Arch, Comparison, Condition, InstallOptions, Profile, Rule, compile_all};

/// A word that isn't known, or that has no meaning where it stands.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct DocumentError(String);

type Result<T> = std::result::Result<T, DocumentError>;

fn refuse<T>(text: impl Into<String>) -> Result<T> {
    Err(DocumentError(text.into()))
}

/// A profile, as its words were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Document {
    /// What becomes of a call that no entry is for.
    pub default_action: String,
    /// Its errno, where it has one.
    pub default_errno: Option<u32>,
    /// Of which architectures calls are looked at. The machine's own is always among them.
    pub architectures: Vec<String>,
    /// Flags of seccomp(2). `None`: those that engines set where a profile has none.
    pub flags: Option<Vec<String>>,
    /// Whether a process listens for `SCMP_ACT_NOTIFY`.
    pub has_listener: bool,
    /// Looked at in this order.
    pub entries: Vec<Entry>,
}

/// An action for some calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Names of calls.
    pub names: Vec<String>,
    /// What becomes of them.
    pub action: String,
    /// Its errno, where it has one.
    pub errno: Option<u32>,
    /// Only if all of these hold.
    pub arguments: Vec<Argument>,
}

/// A condition on an argument of a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Argument {
    /// The number of the argument, 0 to 5.
    pub index: u32,
    /// What it is compared with; the mask of `SCMP_CMP_MASKED_EQ`.
    pub value: u64,
    /// What the masked argument is compared with.
    pub value_two: u64,
    /// The comparison, as libseccomp names it (`SCMP_CMP_EQ`).
    pub operator: String,
}

/// A compiled document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// `struct sock_filter[]`, as [`super::install_with`] takes it.
    pub program: Vec<u8>,
    /// How it is to be installed.
    pub options: InstallOptions,
}

/// A compiled document in two ([`Document::compile_apart`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Apart {
    /// What a listener decides on, and nothing else. First; `None` where there is no such call.
    pub notifying: Option<Compiled>,
    /// All that the document says, but that calls of a listener are carried out.
    pub rest: Compiled,
}

/// The rules of each architecture.
struct Whole(Vec<(Arch, Profile)>);

impl Whole {
    /// Whether there is a call that a listener decides on.
    fn notifies(&self) -> bool {
        let mut rules = self.0.iter().flat_map(|(_, profile)| &profile.rules);
        rules.any(|rule| rule.action == Action::Notify)
    }

    /// The same calls with other actions.
    fn with(&self, change: impl Fn(Action) -> Action) -> Whole {
        let profile = |profile: &Profile| Profile {
            default: change(profile.default),
            rules: profile
                .rules
                .iter()
                .map(|rule| Rule {
                    action: change(rule.action),
                    ..rule.clone()
                })
                .collect(),
        };
        let profiles = self.0.iter();
        Whole(profiles.map(|(arch, it)| (*arch, profile(it))).collect())
    }
}

/// The actions, by the specification's words.
pub const ACTIONS: [&str; 9] = [
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
pub const OPERATORS: [&str; 7] = [
    "SCMP_CMP_EQ",
    "SCMP_CMP_GE",
    "SCMP_CMP_GT",
    "SCMP_CMP_LE",
    "SCMP_CMP_LT",
    "SCMP_CMP_MASKED_EQ",
    "SCMP_CMP_NE",
];

/// The flags.
pub const FLAGS: [&str; 4] = [
    "SECCOMP_FILTER_FLAG_LOG",
    "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
    "SECCOMP_FILTER_FLAG_TSYNC",
    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
];

/// The architectures that a profile may name; those of other machines are passed over.
pub const ARCHITECTURES: [(&str, Arch); 4] = [
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

impl Document {
    /// The program for all its architectures. `before` gives rules that come before the document's
    /// own, for each of them. The process that installs it calls `write` to give its listener
    /// away.
    ///
    /// # Errors
    /// The first word that isn't known, or has no meaning where it stands; a program that is too
    /// long for the kernel.
    pub fn compile(&self, before: impl Fn(Arch) -> Vec<Rule>) -> Result<Compiled> {
        let whole = self.whole(before, &["write"])?;
        self.program(&whole, whole.notifies())
    }

    /// The same as two programs, to be installed one after the other. With the first the process
    /// hands its listener over, and is bound by nothing else of the profile meanwhile. It calls
    /// `sendmsg` and `recvmsg` for that, and `write` where it fails. Of two filters the kernel
    /// takes the stricter word, so both together are the one of [`Self::compile`] (seccomp(2)).
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn compile_apart(&self, before: impl Fn(Arch) -> Vec<Rule>) -> Result<Apart> {
        let whole = self.whole(before, &["sendmsg", "recvmsg", "write"])?;
        if !whole.notifies() {
            let rest = self.program(&whole, false)?;
            return Ok(Apart {
                notifying: None,
                rest,
            });
        }
        let only = |action| match action {
            Action::Notify => Action::Notify,
            _ => Action::Allow,
        };
        let but = |action| match action {
            Action::Notify => Action::Allow,
            other => other,
        };
        Ok(Apart {
            notifying: Some(self.program(&whole.with(only), true)?),
            rest: self.program(&whole.with(but), false)?,
        })
    }

    /// The rules of each architecture. Calls in `spared` may be no listener's: the process itself
    /// needs them to hand it over.
    fn whole(&self, before: impl Fn(Arch) -> Vec<Rule>, spared: &[&str]) -> Result<Whole> {
        let default = action(&self.default_action, self.default_errno)?;
        if default == Action::Notify {
            return refuse("defaultAction: SCMP_ACT_NOTIFY cannot be used as default action");
        }
        let mut profiles = Vec::new();
        for arch in architectures(&self.architectures)? {
            let mut rules = before(arch);
            self.rules_of(arch, default, spared, &mut rules)?;
            profiles.push((arch, Profile { default, rules }));
        }
        let whole = Whole(profiles);
        match whole.notifies() && !self.has_listener {
            true => refuse("listenerPath: SCMP_ACT_NOTIFY needs one"),
            false => Ok(whole),
        }
    }

    fn program(&self, Whole(profiles): &Whole, listener: bool) -> Result<Compiled> {
        // A profile says nothing of calls that are newer than itself; programs fall back on ENOSYS.
        let enosys = Action::Errno(libc::ENOSYS as u16);
        let refuses = |action: Action| {
            let unknown = matches!(action, Action::Errno(_) | Action::Kill | Action::KillThread);
            unknown && action != enosys
        };
        let default = profiles.first().map(|(_, profile)| profile.default);
        let unknown = default.is_some_and(refuses).then_some(enosys);
        match compile_all(profiles, unknown) {
            Ok(filter) => Ok(Compiled {
                program: filter.to_bytes(),
                options: self.options(listener)?,
            }),
            Err(error) => refuse(error.to_string()),
        }
    }

    /// Whether a call that no entry is for is carried out.
    ///
    /// # Errors
    /// The default action isn't known.
    pub fn lets_others_through(&self) -> Result<bool> {
        let default = action(&self.default_action, self.default_errno)?;
        Ok(matches!(
            default,
            Action::Allow | Action::Log | Action::Trace(_)
        ))
    }

    fn rules_of(
        &self,
        arch: Arch,
        default: Action,
        spared: &[&str],
        out: &mut Vec<Rule>,
    ) -> Result<()> {
        for entry in &self.entries {
            let action = action(&entry.action, entry.errno)?;
            if action == default {
                continue;
            }
            let mut names = entry.names.iter();
            if action == Action::Notify
                && let Some(name) = names.find(|name| spared.contains(&name.as_str()))
            {
                let text = format!("SCMP_ACT_NOTIFY cannot be used for the {name} syscall");
                return refuse(text);
            }
            rules(arch, entry, action, out)?;
        }
        Ok(())
    }

    fn options(&self, listener: bool) -> Result<InstallOptions> {
        let mut options = InstallOptions {
            listener,
            // What runc and crun set where a profile has no flags.
            allow_speculation: self.flags.is_none(),
            ..InstallOptions::default()
        };
        for flag in self.flags.iter().flatten() {
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
fn rules(arch: Arch, rule: &Entry, action: Action, out: &mut Vec<Rule>) -> Result<()> {
    let names = rule.names.iter().filter(|name| arch.number(name).is_some());
    let names: Vec<String> = names.cloned().collect();
    let conditions = rule.arguments.iter().map(condition);
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
    if arch == Arch::X86 && rule.arguments.is_empty() {
        out.extend(names.iter().filter_map(|name| multiplexed(name, action)));
    }
    Ok(())
}

fn condition(argument: &Argument) -> Result<Condition> {
    let (comparison, mask, value) = match argument.operator.as_str() {
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
mod tests {
    use super::super::compile::Instruction;
    use super::super::tests::run_program;
    use super::*;

    fn compile(document: &Document) -> Result<Compiled> {
        document.compile(|_| Vec::new())
    }

    #[test]
    fn what_comes_before_holds_on_every_architecture() {
        let document = Document {
            default_action: "SCMP_ACT_ALLOW".into(),
            architectures: vec!["SCMP_ARCH_X86".into()],
            ..Document::default()
        };
        let plain = compile(&document).unwrap().program.len();
        let first = |_: Arch| vec![Rule::new(Action::Kill, ["chmod"])];
        let guarded = document.compile(first).unwrap().program.len();
        assert!(guarded > plain, "{guarded} {plain}");
        assert!(document.lets_others_through().unwrap());
    }

    #[test]
    fn an_entry_with_the_default_action_says_nothing() {
        let entry = |action: &str| Entry {
            names: vec!["read".into()],
            action: action.into(),
            ..Entry::default()
        };
        let document = |action: &str| Document {
            default_action: "SCMP_ACT_KILL_PROCESS".into(),
            entries: vec![entry(action)],
            ..Document::default()
        };
        let same = compile(&document("SCMP_ACT_KILL_PROCESS")).unwrap();
        let other = compile(&document("SCMP_ACT_ALLOW")).unwrap();
        assert!(same.program.len() < other.program.len());
        assert!(!document("SCMP_ACT_ALLOW").lets_others_through().unwrap());
    }

    /// How strict an action is (seccomp(2)): of two filters the kernel takes the lower.
    fn strictness(action: u32) -> u32 {
        let order = [
            libc::SECCOMP_RET_KILL_PROCESS,
            libc::SECCOMP_RET_KILL_THREAD,
            libc::SECCOMP_RET_TRAP,
            libc::SECCOMP_RET_ERRNO,
            libc::SECCOMP_RET_USER_NOTIF,
            libc::SECCOMP_RET_TRACE,
            libc::SECCOMP_RET_LOG,
            libc::SECCOMP_RET_ALLOW,
        ];
        let action = action & libc::SECCOMP_RET_ACTION_FULL;
        let place = order.iter().position(|one| *one == action).unwrap();
        u32::try_from(place).unwrap()
    }

    #[test]
    fn two_programs_say_together_what_one_says() {
        let entry = |names: &[&str], action: &str, first: Option<u64>| Entry {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            action: action.to_owned(),
            arguments: first
                .map(|value| Argument {
                    value,
                    operator: "SCMP_CMP_EQ".to_owned(),
                    ..Argument::default()
                })
                .into_iter()
                .collect(),
            ..Entry::default()
        };
        for default in ["SCMP_ACT_ERRNO", "SCMP_ACT_ALLOW", "SCMP_ACT_LOG"] {
            let document = Document {
                default_action: default.to_owned(),
                has_listener: true,
                entries: vec![
                    entry(&["mkdir", "mount"], "SCMP_ACT_NOTIFY", None),
                    entry(&["kill"], "SCMP_ACT_NOTIFY", Some(7)),
                    entry(&["kill"], "SCMP_ACT_KILL_PROCESS", Some(8)),
                    entry(&["read", "exit"], "SCMP_ACT_ALLOW", None),
                    entry(&["sendmsg"], "SCMP_ACT_TRAP", None),
                ],
                ..Document::default()
            };
            let first = |_: Arch| vec![Rule::new(Action::Kill, ["mount"])];
            let whole = document.compile(first).unwrap();
            let apart = document.compile_apart(first).unwrap();
            let notifying = apart.notifying.unwrap();
            assert!(notifying.options.listener && !apart.rest.options.listener);
            let said = |program: &[u8], name: &str, argument| {
                let program = Instruction::read_all(program).unwrap();
                let number = Arch::NATIVE.number(name).unwrap();
                let audit = Arch::NATIVE.audit();
                run_program(&program, audit, number, [argument, 0, 0, 0, 0, 0]).0
            };
            let calls = ["mkdir", "mount", "kill", "read", "sendmsg", "open", "exit"];
            for (name, argument) in calls.iter().flat_map(|name| [(name, 7), (name, 8)]) {
                let [one, two] =
                    [&notifying, &apart.rest].map(|it| said(&it.program, name, argument));
                let together = [one, two].into_iter().min_by_key(|it| strictness(*it));
                let expected = said(&whole.program, name, argument);
                assert_eq!(together, Some(expected), "{default} {name} {argument}");
            }
            // Until the listener is handed over, nothing but its calls is withheld.
            let allow = Action::Allow.value();
            assert_eq!(said(&notifying.program, "sendmsg", 0), allow);
            assert_eq!(said(&notifying.program, "open", 0), allow);
        }
    }

    #[test]
    fn calls_that_hand_a_listener_over_are_no_listeners() {
        let document = |name: &str| Document {
            default_action: "SCMP_ACT_ALLOW".into(),
            has_listener: true,
            entries: vec![Entry {
                names: vec![name.to_owned()],
                action: "SCMP_ACT_NOTIFY".into(),
                ..Entry::default()
            }],
            ..Document::default()
        };
        let apart = |name| document(name).compile_apart(|_| Vec::new());
        assert!(compile(&document("write")).is_err() && apart("write").is_err());
        assert!(compile(&document("sendmsg")).is_ok() && apart("sendmsg").is_err());
        let unheard = Document {
            has_listener: false,
            ..document("mkdir")
        };
        assert!(unheard.compile_apart(|_| Vec::new()).is_err());
    }

    #[test]
    fn a_rule_for_sockets_is_one_for_socketcall_on_32_bit_x86() {
        let rule = Entry {
            names: vec!["socket".into(), "shmat".into(), "read".into()],
            ..Entry::default()
        };
        let mut out = Vec::new();
        rules(Arch::X86, &rule, Action::Kill, &mut out).unwrap();
        let by_number: Vec<_> = out
            .iter()
            .filter(|rule| !rule.conditions.is_empty())
            .collect();
        assert_eq!(by_number.len(), 2);
        assert_eq!(by_number[0].names, ["socketcall"]);
        assert_eq!(by_number[0].conditions[0].value, 1);
        assert_eq!(by_number[1].names, ["ipc"]);
        assert_eq!(by_number[1].conditions[0].value, 21);
    }

    #[test]
    fn two_conditions_on_one_argument_are_two_rules() {
        let rule = Entry {
            names: vec!["socket".into()],
            arguments: [1, 2]
                .map(|value| Argument {
                    index: 0,
                    value,
                    value_two: 0,
                    operator: "SCMP_CMP_EQ".into(),
                })
                .to_vec(),
            ..Entry::default()
        };
        let mut out = Vec::new();
        rules(Arch::X86_64, &rule, Action::Kill, &mut out).unwrap();
        assert_eq!(out.len(), 2);
        assert!(out.iter().all(|rule| rule.conditions.len() == 1));
    }
}
