// SPDX-License-Identifier: Apache-2.0
//! The network of a cell that is made: whether it is to be attached, and that it is, when its
//! namespace is there and none of its programs. What a network is made of is the port's
//! ([`Networks`](crate::ports::Networks)).

use model::cell::CellSpec;
use model::error::Error;
use model::network::{Attached, Mode, Network};
use model::status::Object;

use crate::caller::{Callers, given_up};
use crate::cell::init::InitProcess;
use crate::index::Key;
use crate::ports::Attach;
use crate::record::CellRecord;
use crate::{Shared, privilege};

/// Whether a cell with this record is to be attached.
///
/// # Errors
/// It asks for that, and the node has no network of cells, or a cell around it is to have none.
pub(super) async fn is_wanted(
    shared: &Shared,
    key: &Key,
    record: &CellRecord,
) -> Result<bool, Error> {
    let spec = &record.spec;
    let around = asked_around(shared, key);
    if !record.by_administrator {
        privilege::below_none(spec, around)?;
    }
    // A pod's cell is there for containers.
    let by_default = record.annex.is_some();
    // A spec that says nothing asks for no network: such a node needs none.
    if !spec.is_attached(true, around, by_default) {
        return Ok(false);
    }
    match shared.networks.absent(&asked(spec)).await {
        None => Ok(true),
        Some(why) if spec.is_attached(false, around, by_default) => {
            Err(why.field("cell.spec.network"))
        }
        Some(_) => Ok(false),
    }
}

fn asked(spec: &CellSpec) -> Network {
    spec.network.clone().unwrap_or_default()
}

/// What the innermost of the cells around asks for that asks for something. None of them ends
/// before this one does, so it holds.
pub(super) fn asked_around(shared: &Shared, key: &Key) -> Option<Mode> {
    let mut around = std::iter::successors(key.parent(), Key::parent);
    around.find_map(|key| match &*shared.index.at(&key)? {
        Object::Cell(cell) => cell.spec.asked_network(),
        Object::Executable(_) => None,
    })
}

/// Attaches the cell whose init that is.
pub(super) async fn attach(
    shared: &Shared,
    record: &CellRecord,
    init: &InitProcess,
    callers: &Callers,
) -> Result<Option<Attached>, Error> {
    if !record.attached {
        return Ok(None);
    }
    if callers.have_gone() {
        return Err(given_up());
    }
    let attach = Attach {
        uid: record.meta.uid,
        tenant: record.meta.tenant.clone(),
        netns: init.namespace("net")?,
        network: asked(&record.spec),
        on_loopback: record.by_administrator,
    };
    shared.networks.attach(attach).await.map(Some)
}
