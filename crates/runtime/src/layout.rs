// SPDX-License-Identifier: Apache-2.0
//! Where things of a cell are, and how a cell looks that was made of a spec: paths, the effective
//! spec, the first status. Pure; the making is [`super::create`]'s.

use std::path::{Path, PathBuf};

use model::cell::{Draft, Namespace};
use model::lifecycle::State;
use model::network::{Attached, Mode};
use model::status::CellStatus;

use super::Shared;
use super::index::Key;
use super::record::CellRecord;

/// Where the cgroup of a cell is.
pub(crate) fn group_path(shared: &Shared, key: &Key) -> PathBuf {
    let around = shared.around(key.tenant.as_str());
    around.path().join(shared.group_below(key))
}

/// Where the socket of a cell is.
pub(crate) fn socket_path(shared: &Shared, record: &CellRecord) -> PathBuf {
    shared
        .settings
        .cells_dir
        .join(format!("{}.sock", record.meta.uid))
}

/// With every default filled in, and the ids that it got.
pub(crate) fn effective(record: &CellRecord, key: &Key) -> Draft {
    let mut effective = record.spec.effective(&key.path);
    effective.id_range = record.ids.map(|ids| ids.count);
    if !record.spec.shares(Namespace::Net) {
        let mode = match record.attached {
            true => Mode::Bridge,
            false => Mode::None,
        };
        effective.network.get_or_insert_default().mode = Some(mode);
    }
    effective
}

/// The status of a cell whose init runs. `below`: where its group is below the mount point.
pub(crate) fn status(
    record: &CellRecord,
    effective: Draft,
    pid: i32,
    below: &Path,
    network: Option<Attached>,
) -> CellStatus {
    let mut effective = effective;
    if let (Some(of_spec), Some(attached)) = (&mut effective.network, &network) {
        of_spec.mode = Some(attached.mode());
    }
    CellStatus {
        meta: record.meta.clone(),
        spec: record.spec.clone(),
        effective,
        state: State::Running,
        conditions: Vec::new(),
        pid: u32::try_from(pid).ok().filter(|pid| *pid > 0),
        first_uid: record.ids.map(|ids| ids.first),
        started: Some(record.started),
        finished: None,
        running_children: 0,
        cgroup: below.display().to_string(),
        final_usage: None,
        network,
        annex: record.annex.clone(),
        image_digest: record
            .image
            .as_ref()
            .map(|image| image.digest.clone())
            .unwrap_or_default(),
    }
}
