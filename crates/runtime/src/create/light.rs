// SPDX-License-Identifier: Apache-2.0
//! Making a light cell: a group, and a socket on which the init of the cell around it serves it. No
//! process, no namespace, no mount.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use kernel::cgroup::Cgroup;
use model::error::{Error, Reason};
use model::lifecycle::State;
use model::name::Uid;
use model::status::Object;

use super::groups::groups;
use super::{kernel_failed, listen, publish};
use crate::Shared;
use crate::cell::init;
use crate::cell::owner::{Beginning, Owner};
use crate::cell::{CellHandle, Request};
use crate::index::{Key, Reservation};
use crate::layout::{effective, socket_path, status};
use crate::link::LinkError;
use crate::link::cell::HelloSent;
use crate::record::{self, CellRecord};

/// What the init takes for it, in bytes: two sockets, a record.
const INIT_SHARE: u64 = 16 << 10;

/// Makes a light cell whose name is reserved.
pub(super) async fn cell(
    shared: &Arc<Shared>,
    record: CellRecord,
    reservation: Reservation,
) -> Result<CellHandle, Error> {
    let key = Key {
        tenant: record.meta.tenant.clone(),
        path: record.meta.path.clone(),
    };
    let _being_created = shared.creations.take(&key.tenant, 1)?;
    let around = around(shared, &key)?;
    let effective = effective(&record, &key);
    let bytes = record::encode(&record)?;
    let groups = groups(
        shared,
        &key,
        record.meta.uid,
        &effective,
        INIT_SHARE,
        |group| {
            init::mark_light(group)
                .map_err(|e| kernel_failed("the cell's cgroup can't be marked", &e))
        },
    )?;
    let mut made = Made {
        parent: Some(groups.parent),
        name: key.path.name().to_owned(),
        socket: socket_path(shared, &record),
        served: None,
    };
    let listener = listen(&made.socket)?;
    let lost = |e: LinkError| Error::internal(format!("the light cell can't be talked to: {e}"));
    let hello = HelloSent::to(&made.socket).await.map_err(lost)?;
    // From here on the init may have it, whatever the answer is.
    made.served = Some((around.clone(), record.meta.uid));
    serve(&around, &record, bytes, listener).await?;
    let (link, _) = hello
        .welcomed(record::wire(record.meta.uid))
        .await
        .map_err(lost)?;
    let lent = around
        .init()
        .lent()
        .map_err(|e| kernel_failed("the cell around it", &e))?;
    let below = shared.below_mount(&key);
    let status = status(&record, effective, lent.pid(), &below, None);
    let beginning = Beginning {
        key: key.clone(),
        root_id: shared.index.root_id(&key),
        record,
        status: status.clone(),
        group: groups.group,
        parent_frozen: false,
        init: Arc::new(lent),
        link,
        socket: made.socket.clone(),
        exit: None,
    };
    let (owner, line) = Owner::new(shared.clone(), beginning);
    // Where that is refused the cell around it ends, and the init with it.
    shared.index.register(key, line.handle.clone(), None, 0)?;
    made.keep();
    Ok(publish(shared, owner, line, status, reservation))
}

/// The cell around it, which is no container: programs of one are in other namespaces than its
/// init.
fn around(shared: &Shared, key: &Key) -> Result<CellHandle, Error> {
    let Some(parent) = key.parent() else {
        let problem = "must be of a nested cell: a light cell uses the namespaces and the init \
                       of the enclosing cell";
        return Err(Error::invalid("cell.spec.light", problem)
            .hint("name it CELL/NAME, with a cell that is there"));
    };
    let not_found = || Error::not_found("cell", parent.path.to_string());
    let object = shared.index.at(&parent).ok_or_else(not_found)?;
    let Object::Cell(cell) = &*object else {
        return Err(not_found());
    };
    if cell.spec.container.is_some() {
        let problem = "can't be in a container";
        return Err(Error::invalid("cell.spec.light", problem).hint("leave it out there"));
    }
    if cell.state != State::Running {
        let message = format!("the cell {} is {}", parent.path, cell.state);
        let error = Error::new(Reason::WrongState, message);
        return Err(error.about("cell", parent.path.to_string()));
    }
    shared.index.cell(&parent).ok_or_else(not_found)
}

/// Has the init serve it.
async fn serve(
    around: &CellHandle,
    record: &CellRecord,
    bytes: Vec<u8>,
    listener: OwnedFd,
) -> Result<(), Error> {
    let uid = record.meta.uid;
    around
        .ask(|reply| Request::Light {
            uid,
            record: bytes,
            listener,
            reply,
        })
        .await
}

/// What there is of it, to be taken back unless it is kept.
struct Made {
    parent: Option<Cgroup>,
    name: String,
    socket: PathBuf,
    /// The cell whose init was asked to serve it.
    served: Option<(CellHandle, Uid)>,
}

impl Made {
    fn keep(&mut self) {
        self.parent = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(parent) = self.parent.take() {
            // Nothing was ever in it.
            crate::cell::leaf::remove(&parent, &self.name);
            let _ = std::fs::remove_file(&self.socket);
            if let Some((around, uid)) = self.served.take() {
                around.unlight(uid);
            }
        }
    }
}
