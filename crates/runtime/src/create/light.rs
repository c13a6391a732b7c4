// SPDX-License-Identifier: Apache-2.0
//! Making a light cell: a group, and a socket on which the init of the cell around it serves it. No
//! process, no namespace, no mount.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::cgroup::Cgroup;
use model::error::{Error, Reason};
use model::lifecycle::State;
use model::name::Uid;
use model::quota::Storage;
use model::status::Object;
use rustix::io::Errno;

use super::groups::groups;
use super::{kernel_failed, listen, publish};
use crate::Shared;
use crate::cell::init::{self, InitProcess};
use crate::cell::owner::{Beginning, Owner};
use crate::cell::renewal::Renewed;
use crate::cell::{CellHandle, Request};
use crate::index::{Key, Reservation};
use crate::layout::{effective, socket_path, status};
use crate::link::LinkError;
use crate::link::cell::{CellLink, HelloSent};
use crate::record::{self, CellRecord};
use crate::slices::{self, Slice};

/// What the init takes for it, in bytes: two sockets, a record.
const INIT_SHARE: u64 = 16 << 10;

/// How long the init of the cell around may take to be replaced.
const LONGEST: Duration = Duration::from_secs(60);
/// How long to wait before its owner is asked once more.
const AGAIN: Duration = Duration::from_millis(50);

/// Makes a light cell whose name is reserved.
pub(super) async fn cell(
    shared: &Arc<Shared>,
    record: CellRecord,
    reservation: Reservation,
    slices: &[Slice],
) -> Result<CellHandle, Error> {
    let key = Key {
        tenant: record.meta.tenant.clone(),
        path: record.meta.path.clone(),
    };
    let _being_created = shared.creations.take(&key.tenant, 1)?;
    let around = around(shared, &key)?;
    let effective = effective(&record, &key);
    record::encode(&record)?;
    let groups = groups(
        shared,
        &key,
        record.meta.uid,
        &effective,
        INIT_SHARE,
        slices,
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
    // From here on the init may have it, whatever the answer is.
    made.served = Some((around, record.meta.uid));
    let (link, lent) = served(shared, &record, &made.socket, false).await?;
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
    shared
        .index
        .register(key, line.handle.clone(), None, Storage::default())?;
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

/// The conversation about it with the init of the cell around, which serves it from then on, and
/// that init. Where the init dies meanwhile and the cell outlives that, the next one does (ADR 77).
async fn served(
    shared: &Shared,
    record: &CellRecord,
    socket: &Path,
    is_there: bool,
) -> Result<(CellLink, InitProcess), Error> {
    let begun = Instant::now();
    loop {
        match serve(shared, record, socket, is_there).await {
            Err(error) if begun.elapsed() < LONGEST && may_pass(&error, is_there) => {
                // The owner of the cell around doesn't know of the death yet, or the next init has
                // died, too: there is no event that tells which.
                tokio::time::sleep(AGAIN).await;
            }
            other => return other,
        }
    }
}

/// Whether another try may go better. A new light cell is refused for other reasons as well.
fn may_pass(error: &Error, is_there: bool) -> bool {
    let by_a_death = [Errno::AGAIN, Errno::PIPE].map(Errno::raw_os_error);
    match is_there {
        true => error.reason != Reason::WrongState,
        false => error.errno.is_some_and(|errno| by_a_death.contains(&errno)),
    }
}

async fn serve(
    shared: &Shared,
    record: &CellRecord,
    socket: &Path,
    is_there: bool,
) -> Result<(CellLink, InitProcess), Error> {
    let uid = record.meta.uid;
    let key = Key {
        tenant: record.meta.tenant.clone(),
        path: record.meta.path.clone(),
    };
    let around = key.parent().and_then(|parent| shared.index.cell(&parent));
    let ended = || Error::new(Reason::WrongState, "the cell around it has ended");
    let around = around.ok_or_else(ended)?;
    let listener = listen(socket)?;
    let hello = HelloSent::to(socket).await.map_err(lost)?;
    let written = record::encode(record)?;
    let asked = around.ask(|reply| Request::Light {
        uid,
        record: written,
        listener,
        is_there,
        reply,
    });
    asked.await?;
    let (link, _) = hello.welcomed(record::wire(uid)).await.map_err(lost)?;
    Ok((link, around.init().lent()))
}

fn lost(error: LinkError) -> Error {
    let is_dead = matches!(error, LinkError::Closed);
    let lost = Error::internal(format!("the light cell can't be talked to: {error}"));
    match is_dead {
        true => lost.errno(Errno::PIPE.raw_os_error()),
        false => lost,
    }
}

/// Has the next init of the cell around it serve a light cell that is there: the one that served it
/// has died, or answers no more.
pub(crate) async fn again(
    shared: &Shared,
    record: &CellRecord,
    socket: &Path,
) -> Result<Renewed, Error> {
    let (link, init) = served(shared, record, socket, true).await?;
    Ok(Renewed {
        link,
        init,
        exit: None,
        orphans: None,
    })
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
            slices::tidy(parent.path());
            let _ = std::fs::remove_file(&self.socket);
            if let Some((around, uid)) = self.served.take() {
                around.unlight(uid);
            }
        }
    }
}
