// SPDX-License-Identifier: Apache-2.0
//! What is kept of a pod with its cell, for the next daemon. It comes back from a cell-init, which
//! counts as hostile; so it carries a code (HMAC) over all that it says, whose it is and of which
//! run, with a key that no cell knows. A pod that an administrator was allowed to give a folder of
//! the node can't be made up.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::exit::Exit;
use model::name::{ObjectPath, Tenant, Uid};
use model::pod::PodSpec;
use model::pod::debug::Debug;
use model::pod::status::Event;
use model::pod::steps::{Count, End};
use model::status::Annex;
use model::time::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// What the next daemon has to know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// As sent.
    pub(crate) spec: PodSpec,
    /// It runs on another daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) away: Option<Away>,
    /// A stop was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<Stop>,
    /// How containers have ended last, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ends: BTreeMap<String, Ended>,
    /// Containers that were added to look at it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) debug: Vec<Debug>,
    /// The last of what has happened; at most [`KEPT_EVENTS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<Event>,
}

/// How many events the next daemon is told: the rest of a record is the spec's.
pub(crate) const KEPT_EVENTS: usize = 8;

impl Kept {
    /// Of a pod that begins now.
    pub(crate) fn new(spec: PodSpec) -> Self {
        Self {
            spec,
            away: None,
            stop: None,
            ends: BTreeMap::new(),
            debug: Vec::new(),
            events: Vec::new(),
        }
    }

    /// What counts in its tenant's quota `spec_bytes`; the rest is short.
    pub(crate) fn counted(&self) -> impl Serialize {
        (&self.spec, &self.debug)
    }
}

/// Where a pod runs that isn't on this node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Away {
    /// Of that daemon. The node's default may be another by now.
    pub(crate) class: String,
    /// Who asked for the pod is no administrator.
    pub(crate) for_a_member: bool,
    /// It was begun there.
    pub(crate) begun: bool,
}

/// A stop that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Stop {
    /// The time at which the stop was asked for.
    pub(crate) at: Timestamp,
    /// How long it may take in all.
    pub(crate) grace: Duration,
}

/// The last end of a container.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// Since it ran for long.
    pub(crate) in_a_row: u32,
    /// The time at which it ended.
    pub(crate) at: Timestamp,
    /// How long it ran.
    pub(crate) ran: Duration,
    /// It exited with 0.
    pub(crate) success: bool,
    /// `None`: its program could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<Exit>,
}

impl Ended {
    pub(crate) fn end(&self) -> End {
        End {
            count: Count {
                restarts: self.restarts,
                in_a_row: self.in_a_row,
            },
            at: self.at,
            ran: self.ran,
            success: self.success,
        }
    }
}

/// As it is in the cell's record.
#[derive(Serialize, Deserialize)]
struct Sealed {
    pod: Kept,
    /// The authentication code of `pod`, in hexadecimal digits.
    code: String,
}

/// Makes and checks the codes.
pub(crate) struct Seal(hmac::Key);

/// Of the key, in bytes.
const KEY: usize = 32;

impl Seal {
    /// With the node's key, which is made at the first time.
    pub(crate) fn open(folder: &Path) -> std::io::Result<Self> {
        let path = folder.join("key");
        let read = std::fs::File::open(&path);
        if let Err(error) = &read
            && error.kind() == std::io::ErrorKind::NotFound
        {
            make(folder, &path)?;
        }
        let mut key = [0; KEY];
        std::fs::File::open(&path)?.read_exact(&mut key)?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// For the record of that cell.
    pub(crate) fn seal(
        &self,
        tenant: &Tenant,
        path: &ObjectPath,
        uid: Uid,
        kept: &Kept,
    ) -> Result<Annex, Error> {
        let broken = |e: serde_json::Error| Error::internal(format!("a pod can't be kept: {e}"));
        let tag = hmac::sign(&self.0, &said(tenant, path, uid, kept).map_err(broken)?);
        let sealed = Sealed {
            pod: kept.clone(),
            code: hex(tag.as_ref()),
        };
        let value = serde_json::to_value(sealed).map_err(broken)?;
        Ok(Annex(Arc::new(value)))
    }

    /// What is in the record of that cell; why not, where it isn't ours.
    pub(crate) fn read(
        &self,
        tenant: &Tenant,
        path: &ObjectPath,
        uid: Uid,
        annex: &Annex,
    ) -> Result<Kept, String> {
        let sealed = Sealed::deserialize(&*annex.0).map_err(|e| e.to_string())?;
        let said = said(tenant, path, uid, &sealed.pod).map_err(|e| e.to_string())?;
        let code = unhex(&sealed.code).ok_or("its code is no hexadecimal number")?;
        let verified = hmac::verify(&self.0, &said, &code);
        verified.map_err(|_| "its code is not of this node".to_owned())?;
        Ok(sealed.pod)
    }
}

/// The uid is of one run of that name: the record of an earlier one says nothing of this.
fn said(tenant: &Tenant, path: &ObjectPath, uid: Uid, kept: &Kept) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&(tenant, path, uid.to_string(), kept))
}

/// A key that is there is whole: it gets its name last.
fn make(folder: &Path, path: &Path) -> std::io::Result<()> {
    let mut key = [0; KEY];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    let draft = folder.join("key.new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&draft)?;
    file.write_all(&key)?;
    file.sync_all()?;
    std::fs::rename(draft, path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::pod::spec::{Container, Draft};

    fn kept() -> Kept {
        let container = Container {
            name: "app".to_owned(),
            entrypoint: vec!["true".to_owned()],
            ..Container::default()
        };
        let draft = Draft {
            containers: vec![container],
            ..Draft::default()
        };
        Kept::new(draft.try_into().unwrap())
    }

    #[test]
    fn what_was_kept_comes_back_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let seal = Seal::open(folder.path()).unwrap();
        let (acme, evil): (Tenant, Tenant) = ("acme".parse().unwrap(), "evil".parse().unwrap());
        let web: ObjectPath = "web".parse().unwrap();
        let (this, earlier) = (Uid([1; 16]), Uid([2; 16]));
        let annex = seal.seal(&acme, &web, this, &kept()).unwrap();
        // The next daemon has the same key.
        let seal = Seal::open(folder.path()).unwrap();
        assert_eq!(seal.read(&acme, &web, this, &annex).unwrap(), kept());
        seal.read(&evil, &web, this, &annex).unwrap_err();
        seal.read(&acme, &"db".parse().unwrap(), this, &annex)
            .unwrap_err();
        seal.read(&acme, &web, earlier, &annex).unwrap_err();
        let mut forged = (*annex.0).clone();
        forged["pod"]["spec"]["containers"][0]["entrypoint"][0] = "false".into();
        seal.read(&acme, &web, this, &Annex(Arc::new(forged)))
            .unwrap_err();
        let other = Seal::open(tempfile::tempdir().unwrap().path()).unwrap();
        other.read(&acme, &web, this, &annex).unwrap_err();
    }
}
