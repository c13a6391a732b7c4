// SPDX-License-Identifier: Apache-2.0
//! Who has sent an entry, by the kernel's word: the credentials of the socket, and what /proc says
//! of that process now. A sender that has ended meanwhile is known by its credentials alone. Which
//! unit or executable its cgroup is of, the port [`Owners`] says.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// Whose a cgroup is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The tenant; empty: it is no tenant's.
    pub tenant: String,
    /// The executable, or the cell.
    pub path: String,
    /// The unit, where it is one's.
    pub unit: Option<String>,
}

/// Knows whose a cgroup is.
pub trait Owners: Send + Sync + 'static {
    /// By its path as `/proc/PID/cgroup` has it.
    fn owner(&self, group: &str) -> BoxFuture<'_, Owner>;
}

/// What the socket says of a sender. As the daemon's own namespaces see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Credentials {
    pub(super) pid: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl From<rustix::net::UCred> for Credentials {
    fn from(sent: rustix::net::UCred) -> Credentials {
        let pid = rustix::process::Pid::as_raw(Some(sent.pid));
        Credentials {
            pid: u32::try_from(pid).unwrap_or(0),
            uid: sent.uid.as_raw(),
            gid: sent.gid.as_raw(),
        }
    }
}

/// What is known of a sender.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Sender {
    fields: Vec<(&'static str, Vec<u8>)>,
    pub(super) owner: Owner,
    uid: u32,
}

impl Sender {
    /// By what its messages are counted: its unit or executable; otherwise its user.
    pub(super) fn account(&self) -> String {
        match (self.owner.tenant.as_str(), &self.owner.unit) {
            (_, Some(unit)) => unit.clone(),
            ("", None) => format!("uid {}", self.uid),
            (tenant, None) => {
                // All of a tenant's executables share: it can make as many as it likes.
                match tenant == "system" {
                    true => self.owner.path.clone(),
                    false => tenant.to_owned(),
                }
            }
        }
    }

    /// Whether it is the node's own.
    pub(super) fn is_systems(&self) -> bool {
        match self.owner.tenant.as_str() {
            "system" => true,
            "" => self.uid == 0,
            _ => false,
        }
    }

    /// What is known of it, as fields of its entries.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        let own = self.fields.iter();
        let own = own.map(|(name, value)| (*name, value.as_slice()));
        let unit = self.owner.unit.as_deref();
        let unit = unit.map(|unit| ("_SYSTEMD_UNIT", unit.as_bytes()));
        let object = [
            ("_AURAE_TENANT", self.owner.tenant.as_bytes()),
            ("_AURAE_PATH", self.owner.path.as_bytes()),
        ];
        let has_object = !self.owner.tenant.is_empty();
        let object = object.into_iter().filter(move |_| has_object);
        own.chain(unit).chain(object)
    }
}

/// Processes whose facts are remembered.
const MOST: usize = 512;
/// How long: a process may execute another program, and its number may become another one's.
const FRESH: Duration = Duration::from_millis(200);
/// A command line is cut to so many bytes.
const LONGEST: usize = 4096;

/// Finds out who senders are.
pub(super) struct Senders {
    owners: Arc<dyn Owners>,
    known: HashMap<u32, (Duration, Credentials, Arc<Sender>)>,
}

impl Senders {
    pub(super) fn new(owners: Arc<dyn Owners>) -> Senders {
        Senders {
            owners,
            known: HashMap::new(),
        }
    }

    /// The sender with these credentials. `now` is a clock that only goes forwards.
    pub(super) async fn of(&mut self, credentials: Credentials, now: Duration) -> Arc<Sender> {
        if let Some((at, known, sender)) = self.known.get(&credentials.pid)
            && *known == credentials
            && now.saturating_sub(*at) < FRESH
        {
            return sender.clone();
        }
        let sender = Arc::new(self.look(credentials).await);
        if self.known.len() >= MOST {
            self.known
                .retain(|_, (at, ..)| now.saturating_sub(*at) < FRESH);
        }
        if self.known.len() < MOST {
            self.known
                .insert(credentials.pid, (now, credentials, sender.clone()));
        }
        sender
    }

    async fn look(&self, credentials: Credentials) -> Sender {
        let Credentials { pid, uid, gid } = credentials;
        let mut fields: Vec<(&'static str, Vec<u8>)> = vec![
            ("_PID", pid.to_string().into_bytes()),
            ("_UID", uid.to_string().into_bytes()),
            ("_GID", gid.to_string().into_bytes()),
        ];
        let folder = format!("/proc/{pid}");
        let read = |file: &str| fs::read(format!("{folder}/{file}")).ok();
        // Facts of another process that has its number by now would be lies.
        let is_same = users(&folder).contains(&uid);
        if pid == 0 || !is_same {
            return Sender {
                fields,
                uid,
                ..Sender::default()
            };
        }
        if let Some(name) = read("comm") {
            fields.push(("_COMM", name.trim_ascii_end().to_vec()));
        }
        if let Ok(program) = fs::read_link(format!("{folder}/exe")) {
            fields.push(("_EXE", program.into_os_string().into_encoded_bytes()));
        }
        if let Some(mut words) = read("cmdline") {
            words.truncate(LONGEST);
            let words = words
                .trim_ascii_end()
                .strip_suffix(&[0])
                .unwrap_or(&words)
                .to_vec();
            let words = words
                .iter()
                .map(|byte| if *byte == 0 { b' ' } else { *byte });
            fields.push(("_CMDLINE", words.collect()));
        }
        let groups = read("cgroup").unwrap_or_default();
        let groups = String::from_utf8_lossy(&groups).into_owned();
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let owner = match group {
            Some(group) => {
                fields.push(("_SYSTEMD_CGROUP", group.as_bytes().to_vec()));
                self.owners.owner(group).await
            }
            None => Owner::default(),
        };
        Sender { fields, owner, uid }
    }
}

/// The users that a process may send as: its real, effective and saved one.
fn users(folder: &str) -> Vec<u32> {
    let text = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"));
    let numbers = line.unwrap_or("").split_whitespace().take(3);
    numbers.filter_map(|it| it.parse().ok()).collect()
}
