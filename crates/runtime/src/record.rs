// SPDX-License-Identifier: Apache-2.0
//! The opaque records that the inits keep for the daemon: everything about a cell or an executable
//! that can't be read back from the kernel. JSON, versioned, at most 8 MiB: a long one goes to its
//! init, and stays there, as a sealed memfd.
//!
//! A record comes back from a cell-init, which counts as hostile. So a record says nothing that is
//! believed of *others*: `adopt` compares its tenant, path and ids with the kernel's cgroup tree
//! and id maps.

use init::protocol::{MAX_RECORD, MAX_SEALED, Record};
use model::cell::CellSpec;
use model::container::Defaults;
use model::error::{Error, Reason};
use model::executable::{Effective, ExecutableSpec, LogPolicy, MAX_STOP_GRACE};
use model::launch::KillMode;
use model::name::Uid;
use model::resources::Resources;
use model::status::{Annex, Meta, Object};
use model::time::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::ids::IdRange;
use super::images::OfImage;
use super::index::requests::IdempotencyKey;

/// The form of the records below. Another one is refused, not guessed at.
const VERSION: u8 = 1;

/// A stop that was asked for: written here before any signal is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct StopIntent {
    /// The time at which the stop was asked for.
    pub(crate) at: Timestamp,
    /// From there to SIGKILL; `None`: each executable's own.
    pub(crate) grace: Option<Duration>,
}

/// A cell's record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CellRecord {
    pub(crate) meta: Meta,
    pub(crate) spec: CellSpec,
    #[serde(default, rename = "asked", skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ids: Option<IdRange>,
    /// A client froze this cell (not one around it).
    #[serde(default)]
    pub(crate) frozen: bool,
    /// Ends and goes with this executable of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) goes_with: Option<Uid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<StopIntent>,
    /// An update is being carried out; `spec` is what was before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Pending>,
    /// What a subsystem above keeps with the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annex: Option<Annex>,
    /// What its root was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<OfImage>,
    /// It was made to be attached to the network of cells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) attached: bool,
    /// An administrator of the node asked for it. It counts while it is made, and never of what
    /// comes back from an init.
    #[serde(skip)]
    pub(crate) by_administrator: bool,
    pub(crate) started: Timestamp,
}

/// What an update is about to do, so that a daemon that comes in the middle can take it back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// The limits that it sets.
    pub(crate) resources: Resources,
    /// Where it attaches mounts, and what is mounted there below them (0: nothing).
    pub(crate) added: Vec<Mounted>,
    /// The mounts that it detaches.
    pub(crate) removed: Vec<Mounted>,
}

/// A mount in the cell, by its id in the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Mounted {
    pub(crate) target: String,
    pub(crate) mount: u32,
}

/// An executable's record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ExecutableRecord {
    pub(crate) meta: Meta,
    pub(crate) spec: ExecutableSpec,
    #[serde(default, rename = "asked", skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// The node's defaults when it began, so that a changed configuration does not change it.
    #[serde(default)]
    pub(crate) logs: LogPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<StopIntent>,
    /// Who asked for it attaches to it; until then it does not remove itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) attach_follows: bool,
    /// In a container: what it has where its spec says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) defaults: Option<Defaults>,
}

impl ExecutableRecord {
    /// The name of its leaf.
    pub(crate) fn leaf(&self) -> String {
        leaf_name(&self.meta, self.spec.ending.kill_mode)
    }

    /// The spec with every default filled in.
    ///
    /// # Errors
    /// `INVALID_FIELD` where a container's defaults and the spec don't go together.
    pub(crate) fn effective(&self) -> Result<Effective, Error> {
        match &self.defaults {
            None => Ok(self.spec.effective(self.logs)),
            Some(defaults) => self.spec.effective_in(self.logs, defaults),
        }
    }
}

/// The name of an executable's leaf: its own, or one of that run alone where processes may stay in
/// it that the executable is done with. No label has a dot.
pub(crate) fn leaf_name(meta: &Meta, mode: KillMode) -> String {
    match mode.leaves() {
        true => format!("{}.{}", meta.path.name(), meta.uid),
        false => meta.path.name().to_owned(),
    }
}

/// Whether a group of that name was left behind by an executable's main process.
pub(crate) fn is_left_behind(name: &str) -> bool {
    name.contains('.') && !crate::slices::is_slice(name)
}

/// What the archive keeps of a finished object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Archived {
    pub(crate) object: Object,
    #[serde(default, rename = "asked", skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<IdempotencyKey>,
}

/// The most changes of an object that are counted: far more than one has.
const MAX_GENERATION: u64 = 1 << 62;

/// What is checked before anything is reckoned with it: every number in a record is a cell-init's
/// word.
pub(crate) trait Plausible {
    /// Why it can't be one that a daemon wrote.
    fn check(&self) -> Result<(), String>;
}

impl Plausible for CellRecord {
    fn check(&self) -> Result<(), String> {
        plausible(&self.meta, self.stop)
    }
}

impl Plausible for ExecutableRecord {
    fn check(&self) -> Result<(), String> {
        plausible(&self.meta, self.stop)
    }
}

fn plausible(meta: &Meta, stop: Option<StopIntent>) -> Result<(), String> {
    if meta.generation > MAX_GENERATION {
        return Err(format!("it has generation {}", meta.generation));
    }
    match stop.and_then(|stop| stop.grace) {
        Some(grace) if grace > MAX_STOP_GRACE => Err(format!("its stop has a grace of {grace:?}")),
        _ => Ok(()),
    }
}

#[derive(Serialize)]
struct Versioned<T> {
    v: u8,
    #[serde(flatten)]
    body: T,
}

/// What is read first. Both in one, flattened, would keep a copy of everything on the way.
#[derive(Deserialize)]
struct Version {
    v: u8,
}

/// A record on its way to an init.
#[derive(Debug)]
pub(crate) struct Written {
    /// What stands in the packet.
    pub(crate) record: Record,
    /// The descriptor that is the packet's last, of a long one.
    pub(crate) file: Option<OwnedFd>,
}

impl Written {
    /// The bytes of memory that its init keeps it in. A long one is kept where it was written.
    pub(crate) fn held(&self) -> usize {
        match &self.record {
            Record::Here(bytes) => bytes.len(),
            Record::Beside => 0,
        }
    }
}

/// To be sent.
///
/// # Errors
/// `LIMIT_EXCEEDED` where it is too large for an init to keep. `INTERNAL`: there is no memory or no
/// descriptor for a long one.
pub(crate) fn encode<T: Serialize>(body: &T) -> Result<Written, Error> {
    let bytes = serde_json::to_vec(&Versioned { v: VERSION, body })
        .map_err(|e| Error::internal(format!("a record can't be written: {e}")))?;
    if bytes.len() <= MAX_RECORD {
        let record = Record::Here(bytes);
        return Ok(Written { record, file: None });
    }
    if bytes.len() > MAX_SEALED {
        let message = format!(
            "the record of this object takes {} bytes; at most {MAX_SEALED} are kept",
            bytes.len()
        );
        return Err(Error::new(Reason::LimitExceeded, message)
            .hint("pass large inputs in a file, a volume or on standard input"));
    }
    let file = kernel::sealed::seal(c"aurae-record", &bytes).map_err(|e| {
        Error::internal(format!("a long record can't be kept: {e}")).errno(e.errno())
    })?;
    Ok(Written {
        record: Record::Beside,
        file: Some(file),
    })
}

/// From bytes, with suspicion.
pub(crate) fn decode<T: DeserializeOwned + Plausible>(bytes: &[u8]) -> Result<T, String> {
    let Version { v } = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if v != VERSION {
        return Err(format!("it has form {v}, this daemon reads {VERSION}"));
    }
    let record: T = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    record.check()?;
    Ok(record)
}

/// The protocol's uid for the model's.
pub(crate) fn wire(uid: Uid) -> init::protocol::Uid {
    init::protocol::Uid(uid.0)
}

/// The model's uid for the protocol's.
pub(crate) fn unwire(uid: init::protocol::Uid) -> Uid {
    Uid(uid.0)
}
