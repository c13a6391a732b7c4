// SPDX-License-Identifier: Apache-2.0
//! Compiled system call filters, one per distinct profile: compiling takes longer than starting a
//! process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use init::protocol::Listening;
use kernel::caps::CapabilitySet;
use kernel::seccomp::document::{self, DocumentError};
use kernel::seccomp::{Action, Arch, Profile, Rule, container, no_set_id, no_set_id_on};
use model::error::Error;
use model::executable::Effective;
use model::seccomp::Seccomp;
use model::seccomp::document::{Document, Entry, Machine};

use crate::listener::Agent;

/// How many distinct filters are kept; a node has a handful.
const KEPT: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Filters {
    compiled: Mutex<HashMap<String, Compiled>>,
}

/// A filter, as an init installs it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Compiled {
    /// `struct sock_filter[]`; empty: none.
    pub(crate) program: Vec<u8>,
    /// Whether the kernel logs what isn't allowed.
    pub(crate) log: bool,
    /// What comes before it, where an agent decides on calls.
    pub(crate) listener: Option<(Listening, Agent)>,
}

impl Filters {
    /// The filter for an executable. Empty for one that is unconfined among the node's own mounts
    /// (`node_mounts`): anywhere else no program may set a set-id bit, because files of the node
    /// that a cell may write are, or may later be, mounted there.
    pub(crate) fn compile(
        &self,
        effective: &Effective,
        node_mounts: bool,
    ) -> Result<Compiled, Error> {
        // A document is one executable's own: tenants can send any number of them, and none is to
        // cost the others what is kept, or their time.
        if !effective.seccomp.custom.is_empty() {
            return compile(effective, node_mounts);
        }
        let name = format!(
            "{:?} {} {:x} {node_mounts}",
            effective.seccomp,
            effective.seccomp_errno,
            effective.bounding.bits()
        );
        if let Some(filter) = self.kept().get(&name) {
            return Ok(filter.clone());
        }
        // Without the lock: two that come at once both compile, and no other caller waits for them.
        let filter = compile(effective, node_mounts)?;
        let mut compiled = self.kept();
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.insert(name, filter.clone());
        Ok(filter)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Compiled>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compile(effective: &Effective, node_mounts: bool) -> Result<Compiled, Error> {
    let wanted = &effective.seccomp;
    if !wanted.custom.is_empty() {
        return custom(effective, node_mounts);
    }
    let unconfined = wanted.profile == model::seccomp::Profile::Unconfined;
    if node_mounts && unconfined && wanted.deny.is_empty() {
        return Ok(Compiled::default());
    }
    let refusal = match wanted.action {
        model::seccomp::Action::Errno => Action::Errno(effective.seccomp_errno),
        model::seccomp::Action::Kill => Action::Kill,
        model::seccomp::Action::Log => Action::Log,
    };
    let mut profile = match wanted.profile {
        model::seccomp::Profile::Default => {
            let capabilities = CapabilitySet(effective.bounding.bits());
            let container = container(capabilities);
            Profile {
                default: refusal,
                ..container
            }
        }
        model::seccomp::Profile::Strict => Profile {
            default: refusal,
            rules: Vec::new(),
        },
        model::seccomp::Profile::Unconfined => Profile {
            default: Action::Allow,
            rules: Vec::new(),
        },
    };
    // The first rule that is about a call counts: what is denied stays so whatever is allowed.
    if !wanted.allow.is_empty() {
        profile
            .rules
            .insert(0, Rule::new(Action::Allow, wanted.allow.iter().cloned()));
    }
    if !wanted.deny.is_empty() {
        profile
            .rules
            .insert(0, Rule::new(refusal, wanted.deny.iter().cloned()));
    }
    if !node_mounts {
        profile.rules.splice(0..0, no_set_id());
    }
    let filter = profile.compile(Arch::NATIVE).map_err(|error| {
        Error::invalid("executable.spec.seccomp", error.to_string())
            .hint("give names of system calls, or groups such as @mount")
    })?;
    Ok(Compiled {
        program: filter.to_bytes(),
        log: wanted.action == model::seccomp::Action::Log,
        listener: None,
    })
}

/// A filter in Docker's form, for all the architectures that it names.
fn custom(effective: &Effective, node_mounts: bool) -> Result<Compiled, Error> {
    let read = Document::read(&effective.seccomp.custom)?;
    let machine = machine();
    let entries = read.entries(&machine, effective.bounding);
    let document = document::Document {
        entries: entries.iter().map(entry).collect(),
        architectures: read.architectures(&machine),
        ..of(&read)
    };
    let before = |arch: Arch| match node_mounts {
        true => Vec::new(),
        false => no_set_id_on(arch),
    };
    let apart = document.compile_apart(before).map_err(bad)?;
    let listener = apart.notifying.map(|filter| {
        let listening = Listening {
            killable: filter.options.wait_killable,
            program: filter.program,
        };
        let agent = Agent {
            socket: read.listener_path.clone(),
            metadata: read.listener_metadata.clone(),
        };
        (listening, agent)
    });
    let logs = |action: &str| action == "SCMP_ACT_LOG";
    Ok(Compiled {
        log: apart.rest.options.log
            || logs(&document.default_action)
            || document.entries.iter().any(|entry| logs(&entry.action)),
        program: apart.rest.program,
        listener,
    })
}

/// Whether an agent of the node decides on calls.
pub(crate) fn has_agent(wanted: &Seccomp) -> Result<bool, Error> {
    match wanted.custom.is_empty() {
        true => Ok(false),
        false => Ok(!Document::read(&wanted.custom)?.listener_path.is_empty()),
    }
}

/// What a filter in Docker's form asks for that is administrators' alone.
pub(crate) fn privileged(text: &str) -> Result<Option<&'static str>, Error> {
    let read = Document::read(text)?;
    if !read.listener_path.is_empty() {
        return Ok(Some("an agent of the node that decides on system calls"));
    }
    let open = of(&read).lets_others_through().map_err(bad)?;
    Ok(open.then_some("a filter that lets through what it doesn't name"))
}

/// Without the entries, which are for a machine.
fn of(read: &Document) -> document::Document {
    document::Document {
        default_action: read.default_action.clone(),
        default_errno: read.default_errno_ret,
        flags: read.flags.clone(),
        has_listener: !read.listener_path.is_empty(),
        ..document::Document::default()
    }
}

fn entry(entry: &Entry) -> document::Entry {
    let argument = |argument: &model::seccomp::document::Argument| document::Argument {
        index: argument.index,
        value: argument.value,
        value_two: argument.value_two,
        operator: argument.op.clone(),
    };
    document::Entry {
        names: entry.names.clone(),
        action: entry.action.clone(),
        errno: entry.errno_ret,
        arguments: entry.args.iter().map(argument).collect(),
    }
}

fn bad(error: DocumentError) -> Error {
    Error::invalid("executable.spec.seccomp.custom", error.to_string())
        .hint("use the words of Docker's profiles, such as SCMP_ACT_ERRNO and SCMP_CMP_EQ")
}

/// This one, in the words of such files.
fn machine() -> Machine {
    let (arch, native) = match Arch::NATIVE {
        Arch::Aarch64 => ("arm64", "SCMP_ARCH_AARCH64"),
        Arch::X86_64 | Arch::X86 | Arch::X32 => ("amd64", "SCMP_ARCH_X86_64"),
    };
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse().ok());
    Machine {
        arch,
        native,
        linux: (
            numbers.next().unwrap_or_default(),
            numbers.next().unwrap_or_default(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::executable::{Draft, ExecutableSpec, LogPolicy};
    use model::seccomp::Profile as Wanted;

    fn effective(seccomp: Seccomp) -> Effective {
        let draft = Draft {
            argv: vec!["/bin/true".into()],
            seccomp,
            ..Draft::default()
        };
        ExecutableSpec::try_from(draft)
            .unwrap()
            .effective(LogPolicy::default())
    }

    #[test]
    fn only_the_unconfined_among_the_nodes_mounts_have_no_filter() {
        let filters = Filters::default();
        assert!(
            !filters
                .compile(&effective(Seccomp::default()), true)
                .unwrap()
                .program
                .is_empty()
        );
        let unconfined = Seccomp {
            profile: Wanted::Unconfined,
            ..Seccomp::default()
        };
        let unconfined = effective(unconfined);
        let compiled = |node_mounts| filters.compile(&unconfined, node_mounts).unwrap();
        assert!(compiled(true).program.is_empty());
        assert!(!compiled(false).program.is_empty());
    }

    #[test]
    fn a_filter_in_dockers_form_keeps_set_id_bits_out_of_the_nodes_files() {
        let custom = |text: &str| {
            let seccomp = Seccomp {
                custom: text.to_owned(),
                ..Seccomp::default()
            };
            let filters = Filters::default();
            [true, false]
                .map(|node_mounts| filters.compile(&effective(seccomp.clone()), node_mounts))
        };
        let open = r#"{"defaultAction":"SCMP_ACT_LOG","archMap":[
            {"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86"]}]}"#;
        let [among, elsewhere] = custom(open).map(Result::unwrap);
        assert!(among.log && among.program.len() < elsewhere.program.len());
        assert!(privileged(open).unwrap().is_some());
        let closed = r#"{"defaultAction":"SCMP_ACT_ERRNO","flags":[]}"#;
        assert_eq!(privileged(closed).unwrap(), None);
        assert!(!custom(closed)[0].as_ref().unwrap().log);
        let wrong = r#"{"defaultAction":"SCMP_ACT_ERRNO",
            "syscalls":[{"names":["read"],"action":"SCMP_ACT_MOON"}]}"#;
        let error = custom(wrong)[1].clone().unwrap_err();
        assert!(error.message.contains("SCMP_ACT_MOON"), "{error}");
        assert_eq!(
            error.field.as_deref(),
            Some("executable.spec.seccomp.custom")
        );
    }

    #[test]
    fn documents_of_tenants_take_no_place_among_the_filters() {
        let filters = Filters::default();
        let compiled = |seccomp| filters.compile(&effective(seccomp), true).unwrap();
        compiled(Seccomp::default());
        for errno in 1..=KEPT {
            compiled(Seccomp {
                custom: format!(
                    r#"{{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":{errno}}}"#
                ),
                ..Seccomp::default()
            });
        }
        assert_eq!(filters.kept().len(), 1);
    }

    #[test]
    fn a_call_that_is_none_is_named() {
        let unknown = Seccomp {
            deny: vec!["open_sesame".into()],
            ..Seccomp::default()
        };
        let error = Filters::default()
            .compile(&effective(unknown), false)
            .unwrap_err();
        assert!(error.message.contains("open_sesame"), "{error}");
    }
}
