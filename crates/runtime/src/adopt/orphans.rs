// SPDX-License-Identifier: Apache-2.0
//! Cell-inits that are of no living cell: killed. Cgroups of cells whose init is gone: killed and
//! removed. Those inside of a living cell are found by its owner, which reads the cell's folder
//! anyway (`cell::resume`).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kernel::cgroup::{Cgroup, find};
use kernel::signal::Signal;
use model::error::Reason;
use model::object::Kind;

use crate::Shared;
use crate::cell::leaf;
use crate::index::{IdWish, Key, Reservation};
use crate::slices;
use crate::tenant::inits;

/// How long the kernel may take to let go of one.
const GONE: Duration = Duration::from_secs(10);
/// How long dead cells may take to go before the API is opened; the rest goes on beside it.
const KILLING: Duration = Duration::from_secs(2);

/// Kills the cells at the top that are not among these, and removes them; and every cell-init that
/// is not among `living`. Called when no cell is being made.
pub(super) async fn kill_orphans(
    shared: &Arc<Shared>,
    kept: &HashSet<PathBuf>,
    living: &HashSet<i32>,
) {
    let mut killed = Vec::new();
    for group in inits::all(&shared.root) {
        kill_inits(&group, living);
    }
    for (_, tenant) in shared.tenant_groups() {
        let names = tenant.children().unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        for name in names.filter(|name| !name.starts_with('_')) {
            if !kept.contains(&tenant.path().join(name)) {
                killed.extend(kill_orphan(shared, &tenant, name));
            }
        }
    }
    let killed_all = futures_util::future::join_all(killed);
    if tokio::time::timeout(KILLING, killed_all).await.is_err() {
        tracing::warn!("dead cells still go; the API is opened meanwhile");
    }
}

/// What is no cell's init any more: its socket is gone, and no daemon can talk to it.
fn kill_inits(group: &Cgroup, kept: &HashSet<i32>) {
    let Ok(pids) = group.processes() else { return };
    for pid in pids.into_iter().filter(|pid| !kept.contains(pid)) {
        // Held first, looked at then: the number may be another's by now.
        let Ok(pidfd) = kernel::pidfd::open(pid) else {
            continue;
        };
        if find::path_of_process(pid).is_ok_and(|path| path == group.path()) {
            tracing::warn!(pid, "a cell-init of no cell is killed");
            let _ = kernel::pidfd::send_signal(&pidfd, Signal::KILL);
        }
    }
}

/// Kills a group that is of no living cell, and removes it beside. Its name is taken meanwhile, so
/// that no cell is made of that name and killed with it; where it is taken already, its taker deals
/// with what is there.
pub(crate) fn kill_orphan(
    shared: &Arc<Shared>,
    around: &Cgroup,
    name: &str,
) -> Option<tokio::task::JoinHandle<()>> {
    let path = around.path().join(name);
    let Some(key) = key_of(shared, &path) else {
        tracing::warn!(group = %path.display(), "a cgroup that is of no cell is left alone");
        return None;
    };
    let claim = claim(shared, key, Kind::Cell);
    if let Claim::Taken = claim {
        return None;
    }
    let around = around.try_clone().ok()?;
    tracing::warn!(group = %path.display(), "a cgroup without an init is killed and removed");
    if let Ok(group) = around.child(name) {
        leaf::kill(&group);
    }
    let name = name.to_owned();
    Some(tokio::task::spawn_blocking(move || {
        match around.remove(&name, GONE) {
            Ok(()) => slices::tidy(around.path()),
            Err(error) => tracing::error!(%error, "the cgroup of a dead cell stays behind"),
        }
        drop(claim);
    }))
}

/// Whether the group of a name may be removed.
pub(crate) enum Claim {
    /// Yes: the name is reserved until this is dropped.
    Reserved(#[expect(dead_code, reason = "held, not read")] Reservation),
    /// Yes: nothing new may begin there, so no object takes the name meanwhile.
    Closed,
    /// No: an object has the name, and its owner deals with the group.
    Taken,
}

/// Takes the name of a group that is to be removed.
pub(crate) fn claim(shared: &Arc<Shared>, key: Key, kind: Kind) -> Claim {
    let Ok(uid) = crate::api::new_uid() else {
        // Without a number nothing can be reserved; the next daemon removes the group.
        return Claim::Taken;
    };
    match shared.index.reserve(key, uid, (kind, 0), IdWish::None) {
        Ok(reservation) => Claim::Reserved(reservation),
        Err(error) if error.reason == Reason::AlreadyExists => Claim::Taken,
        Err(_) => Claim::Closed,
    }
}

fn key_of(shared: &Shared, path: &Path) -> Option<Key> {
    let below = slices::without(shared.behind_tenants(path)?);
    let (tenant, path) = below.to_str()?.split_once('/')?;
    Some(Key {
        tenant: tenant.parse().ok()?,
        path: path.parse().ok()?,
    })
}
