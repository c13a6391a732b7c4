// SPDX-License-Identifier: Apache-2.0
//! The network of a cell that is made: whether it is to be attached, and that it is, when its
//! namespace is there and none of its programs. What a network is made of is the port's
//! ([`Networks`](crate::ports::Networks)).

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use kernel::namespace;
use kernel::pidfd;
use model::cell::CellSpec;
use model::error::Error;
use model::network::{Attached, Mode};

use super::kernel_failed;
use crate::Shared;
use crate::caller::{Callers, given_up};
use crate::cell::init::InitProcess;
use crate::ports::Attach;
use crate::record::CellRecord;

/// Whether a cell with this spec is to be attached.
///
/// # Errors
/// It asks for that, and the node has no network of cells.
pub(super) async fn is_wanted(shared: &Shared, spec: &CellSpec) -> Result<bool, Error> {
    // What says nothing is asked for by nobody: such a node needs no network.
    if spec.network_mode(true) == Mode::None {
        return Ok(false);
    }
    match shared.networks.absent().await {
        None => Ok(true),
        Some(why) if spec.network_mode(false) == Mode::Bridge => {
            Err(why.field("cell.spec.network"))
        }
        Some(_) => Ok(false),
    }
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
        netns: namespace_of(init)?,
        ports: match &record.spec.network {
            Some(network) => network.ports.clone(),
            None => Vec::new(),
        },
    };
    shared.networks.attach(attach).await.map(Some)
}

/// The network namespace of a cell-init. Its number is its own as long as it lives, and that is
/// looked at afterwards.
fn namespace_of(init: &InitProcess) -> Result<OwnedFd, Error> {
    let failed = |e: kernel::Error| kernel_failed("the network namespace of the new cell", &e);
    let path = PathBuf::from(format!("/proc/{}/ns/net", init.pid()));
    let opened = namespace::open(&path).map_err(failed)?;
    match pidfd::has_ended(init).map_err(failed)? {
        false => Ok(opened),
        true => Err(Error::internal("the new cell's init has ended")),
    }
}
