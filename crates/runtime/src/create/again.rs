// SPDX-License-Identifier: Apache-2.0
//! Another init for a cell that outlives its own (ADR 77): the cell's group is there, with what
//! runs in it, and so are its name and its socket's.

use std::path::Path;
use std::sync::Arc;

use ::init::protocol::CellLaunch;
use kernel::seqpacket::{self, Mode};
use model::error::Error;

use super::failure::not_made;
use super::launch::launch;
use super::{Around, kernel_failed, listen};
use crate::Shared;
use crate::caller::Callers;
use crate::cell::renewal::Renewed;
use crate::index::Key;
use crate::layout::effective;
use crate::link::LinkError;
use crate::link::cell::HelloSent;
use crate::record::{self, CellRecord};
use crate::tenant;

/// Makes it. The end of the one before is known.
pub(crate) async fn init(
    shared: &Arc<Shared>,
    key: &Key,
    record: &CellRecord,
    socket: &Path,
) -> Result<Renewed, Error> {
    let failed = |e: kernel::Error| kernel_failed("another init of the cell", &e);
    let lost = |e: LinkError| Error::internal(format!("the new init can't be talked to: {e}"));
    let uid = record::wire(record.meta.uid);
    // Node-init keeps the old one's end until then, and knows one init of each cell.
    shared.node.acknowledge(uid).await;
    let cells = tenant::group(shared, &key.tenant).map_err(failed)?;
    let inits = tenant::inits::group(shared, &key.tenant, &cells).map_err(failed)?;
    let around = Around::find(shared, key)?;
    let mut fds = vec![inits.into_fd(), listen(socket)?];
    fds.extend(around.pidfd);
    let written = record::encode(record)?;
    fds.extend(written.file);
    let launch = CellLaunch {
        title: format!("{}/{}", key.tenant, key.path),
        ..launch(
            record,
            &effective(record, key),
            around.nested,
            written.record,
        )
    };
    let hello = HelloSent::to(socket).await.map_err(lost)?;
    // No client waits for it.
    let (callers, _present) = Callers::new();
    let created = shared.node.create(launch, fds, &callers).await;
    let created = created.map_err(|e| not_made(e, key))?;
    let (link, _) = match hello.welcomed(uid).await {
        Ok(welcomed) => welcomed,
        Err(error) => {
            created.process.kill();
            return Err(lost(error));
        }
    };
    let (ours, theirs) = seqpacket::pair(Mode::Nonblocking).map_err(failed)?;
    shared.node.tell_orphans(uid, ours).await;
    Ok(Renewed {
        link,
        init: created.process,
        exit: Some(created.exit),
        orphans: Some(theirs),
    })
}
