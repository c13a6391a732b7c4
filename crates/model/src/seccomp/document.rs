// SPDX-License-Identifier: Apache-2.0
//! Profiles in the JSON form of Docker's and Podman's files, and of the OCI runtime specification,
//! which is the same without conditions on the machine. Read and resolved here for one machine and
//! one set of capabilities; what the words mean is the kernel crate's.

use serde::{Deserialize, Deserializer};

use crate::capability::CapabilitySet;
use crate::error::{Error, Result};

/// The most that a profile may take in its record, in bytes: twice Docker's own.
pub const MAX_DOCUMENT_WEIGHT: usize = 24 * 1024;

/// The longest path of a socket, in bytes (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// A profile as its file has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Document {
    /// What becomes of a call that no entry is for, as in `SCMP_ACT_ERRNO`.
    pub default_action: String,
    /// The errno of that.
    pub default_errno_ret: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    architectures: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    arch_map: Vec<ArchMap>,
    /// Flags of seccomp(2).
    #[serde(deserialize_with = "or_default")]
    pub flags: Option<Vec<String>>,
    /// The socket of the agent that decides on `SCMP_ACT_NOTIFY`, a path of the node; empty: none.
    pub listener_path: String,
    /// What the agent is told beside the listener.
    pub listener_metadata: String,
    #[serde(deserialize_with = "or_default")]
    syscalls: Vec<Entry>,
}

/// An architecture, and those whose programs it runs, too.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ArchMap {
    architecture: String,
    #[serde(deserialize_with = "or_default")]
    sub_architectures: Vec<String>,
}

/// An action for some calls.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Entry {
    /// One call, as older files have it.
    name: String,
    /// The calls.
    #[serde(deserialize_with = "or_default")]
    pub names: Vec<String>,
    /// What becomes of them.
    pub action: String,
    /// The errno of that.
    pub errno_ret: Option<u32>,
    /// Only if all of these hold.
    #[serde(deserialize_with = "or_default")]
    pub args: Vec<Argument>,
    #[serde(deserialize_with = "or_default")]
    includes: Only,
    #[serde(deserialize_with = "or_default")]
    excludes: Only,
}

/// A condition on an argument.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Argument {
    /// Its number.
    pub index: u32,
    /// What it is compared with.
    pub value: u64,
    /// What it is compared with where it is masked by `value`.
    pub value_two: u64,
    /// How, as in `SCMP_CMP_EQ`.
    pub op: String,
}

/// Where an entry counts, or doesn't.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Only {
    #[serde(deserialize_with = "or_default")]
    caps: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    arches: Vec<String>,
    min_kernel: String,
}

/// What a profile is resolved for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// In Docker's words: `amd64`, `arm64`.
    pub arch: &'static str,
    /// In libseccomp's words: `SCMP_ARCH_X86_64`.
    pub native: &'static str,
    /// Linux's version, as in `(6, 1)`.
    pub linux: (u32, u32),
}

/// `null` is as good as nothing.
fn or_default<'de, D, T>(from: D) -> std::result::Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

impl Document {
    /// Reads a profile.
    ///
    /// # Errors
    /// `INVALID_FIELD`: it is no such document, is too large, or asks for what no cell has.
    pub fn read(text: &str) -> Result<Document> {
        let size = crate::text::weight(text);
        if size > MAX_DOCUMENT_WEIGHT {
            let problem = format!(
                "takes {size} bytes of the record; at most {MAX_DOCUMENT_WEIGHT} are allowed"
            );
            return Err(Error::invalid("", problem).hint("send it without spaces and comments"));
        }
        let document: Document = serde_json::from_str(text).map_err(|error| {
            Error::invalid("", format!("is no profile in Docker's JSON form: {error}"))
                .hint("give a file such as Docker's default.json")
        })?;
        document.check()?;
        Ok(document)
    }

    fn check(&self) -> Result<()> {
        if self.default_action.is_empty() {
            let problem = "has no defaultAction: what becomes of a call that it doesn't name?";
            return Err(Error::invalid("", problem).hint("say SCMP_ACT_ERRNO"));
        }
        if !self.architectures.is_empty() && !self.arch_map.is_empty() {
            let problem = "has both architectures and archMap; it may have one of them";
            return Err(Error::invalid("", problem));
        }
        self.check_listener()?;
        let with_both = |entry: &&Entry| !entry.name.is_empty() && !entry.names.is_empty();
        if let Some(entry) = self.syscalls.iter().find(with_both) {
            let problem = format!("has an entry with both name ({}) and names", entry.name);
            return Err(Error::invalid("", problem));
        }
        for entry in &self.syscalls {
            for only in [&entry.includes, &entry.excludes] {
                only.minimum()?;
            }
        }
        Ok(())
    }

    fn check_listener(&self) -> Result<()> {
        let notify = "SCMP_ACT_NOTIFY";
        let path = &self.listener_path;
        let problem = if self.default_action == notify {
            "has SCMP_ACT_NOTIFY as its defaultAction: an agent decides on calls by name"
        } else if path.is_empty() {
            match self.syscalls.iter().any(|entry| entry.action == notify) {
                true => "has SCMP_ACT_NOTIFY, and no listenerPath that says who decides",
                false => return Ok(()),
            }
        } else if !path.starts_with('/') || path.contains('\0') || path.len() > MAX_SOCKET_PATH {
            "has a listenerPath that is no absolute path of at most 107 bytes"
        } else {
            return Ok(());
        };
        let hint = "have listenerPath name the socket of an agent of the node";
        Err(Error::invalid("", problem).hint(hint))
    }

    /// Of which architectures calls are looked at.
    pub fn architectures(&self, machine: &Machine) -> Vec<String> {
        let of_machine = self
            .arch_map
            .iter()
            .filter(|map| map.architecture == machine.native);
        let mapped = of_machine.flat_map(|map| {
            let own = std::iter::once(&map.architecture);
            own.chain(&map.sub_architectures).cloned()
        });
        self.architectures.iter().cloned().chain(mapped).collect()
    }

    /// The entries that count on that machine for a program with these capabilities.
    pub fn entries(&self, machine: &Machine, capabilities: CapabilitySet) -> Vec<Entry> {
        let counts = |entry: &&Entry| {
            entry.includes.all(machine, capabilities) && !entry.excludes.any(machine, capabilities)
        };
        let with_names = |entry: &Entry| {
            let mut entry = entry.clone();
            if !entry.name.is_empty() {
                entry.names = vec![std::mem::take(&mut entry.name)];
            }
            entry
        };
        self.syscalls
            .iter()
            .filter(counts)
            .map(with_names)
            .collect()
    }
}

impl Only {
    /// The oldest Linux, where one is named.
    fn minimum(&self) -> Result<Option<(u32, u32)>> {
        if self.min_kernel.is_empty() {
            return Ok(None);
        }
        let version = self.min_kernel.split_once('.').and_then(|(major, minor)| {
            let major = major.parse().ok()?;
            Some((major, minor.parse().ok()?))
        });
        match version {
            Some(version) => Ok(Some(version)),
            None => {
                let problem = format!("has the minKernel {:?}", self.min_kernel);
                Err(Error::invalid("", problem).hint("write MAJOR.MINOR, as in 4.8"))
            }
        }
    }

    /// Whether all that is named holds.
    fn all(&self, machine: &Machine, capabilities: CapabilitySet) -> bool {
        let arch = self.arches.is_empty() || self.arches.iter().any(|arch| arch == machine.arch);
        let minimum = self.minimum().ok().flatten();
        arch && minimum.is_none_or(|minimum| machine.linux >= minimum)
            && self.caps.iter().all(|name| holds(name, capabilities))
    }

    /// Whether something that is named holds.
    fn any(&self, machine: &Machine, capabilities: CapabilitySet) -> bool {
        let minimum = self.minimum().ok().flatten();
        self.arches.iter().any(|arch| arch == machine.arch)
            || minimum.is_some_and(|minimum| machine.linux >= minimum)
            || self.caps.iter().any(|name| holds(name, capabilities))
    }
}

/// A capability that the node doesn't know is one that no process has.
fn holds(name: &str, capabilities: CapabilitySet) -> bool {
    name.parse::<CapabilitySet>()
        .is_ok_and(|one| capabilities.contains(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMD: Machine = Machine {
        arch: "amd64",
        native: "SCMP_ARCH_X86_64",
        linux: (6, 1),
    };

    const DOCKERS: &str = r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1,
        "archMap":[
          {"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86","SCMP_ARCH_X32"]},
          {"architecture":"SCMP_ARCH_AARCH64","subArchitectures":["SCMP_ARCH_ARM"]}],
        "syscalls":[
          {"names":["read"],"action":"SCMP_ACT_ALLOW","args":null,"comment":"","includes":{}},
          {"name":"old","action":"SCMP_ACT_ALLOW"},
          {"names":["arm"],"action":"SCMP_ACT_ALLOW","includes":{"arches":["arm64"]}},
          {"names":["new"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"6.2"}},
          {"names":["mount"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["CAP_SYS_ADMIN"]}},
          {"names":["clone"],"action":"SCMP_ACT_ALLOW","excludes":{"caps":["CAP_SYS_ADMIN"]},
           "args":[{"index":0,"value":5,"valueTwo":0,"op":"SCMP_CMP_MASKED_EQ"}]}]}"#;

    fn names(document: &Document, machine: &Machine, capabilities: CapabilitySet) -> String {
        let entries = document.entries(machine, capabilities);
        let names: Vec<_> = entries.iter().flat_map(|entry| &entry.names).collect();
        names.into_iter().cloned().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_counts_is_what_the_machine_and_the_capabilities_say() {
        let document = Document::read(DOCKERS).unwrap();
        let none = CapabilitySet::default();
        assert_eq!(names(&document, &AMD, none), "read old clone");
        assert_eq!(names(&document, &AMD, CapabilitySet::ALL), "read old mount");
        let newer = Machine {
            arch: "arm64",
            native: "SCMP_ARCH_AARCH64",
            linux: (6, 2),
        };
        assert_eq!(names(&document, &newer, none), "read old arm new clone");
        let archs = document.architectures(&AMD);
        assert_eq!(
            archs,
            ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
        );
    }

    #[test]
    fn what_no_cell_has_is_refused_with_a_word() {
        let action = r#""defaultAction":"SCMP_ACT_ERRNO""#;
        for (text, said) in [
            ("7".to_owned(), "Docker's JSON form"),
            ("{}".to_owned(), "no defaultAction"),
            (
                r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#.to_owned(),
                "defaultAction",
            ),
            (
                format!(
                    r#"{{{action},"syscalls":[{{"names":["a"],"action":"SCMP_ACT_NOTIFY"}}]}}"#
                ),
                "no listenerPath",
            ),
            (format!(r#"{{{action},"listenerPath":"x"}}"#), "absolute"),
            (
                format!(r#"{{{action},"syscalls":[{{"names":["a"],"name":"b"}}]}}"#),
                "both name",
            ),
            (
                format!(r#"{{{action},"syscalls":[{{"includes":{{"minKernel":"x"}}}}]}}"#),
                "minKernel",
            ),
            (" ".repeat(MAX_DOCUMENT_WEIGHT), "at most"),
        ] {
            let error = Document::read(&text).unwrap_err();
            assert!(error.message.contains(said), "{error}");
        }
    }
}
