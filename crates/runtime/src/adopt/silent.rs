// SPDX-License-Identifier: Apache-2.0
//! A cell whose init says nothing: what is shown of it, and what becomes of that when the init is
//! given up. What is in the cell is not shown: only its init knows.

use std::sync::Arc;

use model::cell::CellSpec;
use model::label::Labels;
use model::lifecycle::{Event, State};
use model::name::Uid;
use model::object::Kind;
use model::status::{CellStatus, Meta, Object};

use super::handshake::Seen;
use crate::Shared;
use crate::cell::executable::condition;
use crate::cell::finish::archived;
use crate::index::{INIT_SILENT, Key};

/// The cell as far as the kernel knows it.
pub(super) fn status(shared: &Shared, uid: Uid, seen: &Seen) -> CellStatus {
    let spec = CellSpec::default();
    let below = shared.below_mount(&seen.key);
    let message = "the cell's init has not answered this daemon yet; what is in the cell, its \
                   labels and its spec are not known until it does";
    CellStatus {
        meta: Meta {
            tenant: seen.key.tenant.clone(),
            path: seen.key.path.clone(),
            uid,
            kind: Kind::Cell,
            labels: Labels::default(),
            generation: 1,
            revision: 0,
            created: seen.created,
        },
        effective: spec.effective(&seen.key.path),
        spec,
        state: State::Running,
        conditions: vec![condition(INIT_SILENT, "NoHandshake", message.to_owned())],
        pid: seen.pid.and_then(|pid| u32::try_from(pid).ok()),
        first_uid: seen.ids.map(|ids| ids.first),
        started: Some(seen.created),
        finished: None,
        running_children: 0,
        cgroup: below.display().to_string(),
        final_usage: None,
        annex: None,
        image_digest: String::new(),
        network: shared.networks.attached(uid),
    }
}

/// It was given up: where it was shown, its end is. Answers what it was called.
pub(super) fn lost(shared: &Arc<Shared>, uid: Uid, why: &str) -> Option<Key> {
    let object = shared.index.by_uid(uid)?;
    let Object::Cell(cell) = &*object else {
        return None;
    };
    let state = cell.state.after(Event::Lost).ok()?;
    let mut cell = cell.clone();
    cell.state = state;
    cell.pid = None;
    cell.finished = Some(crate::now());
    let lost = condition("InitLost", "CellInitEnded", why.to_owned());
    cell.conditions.push(lost);
    let key = Key::of(&object);
    shared.index.forget_silent(&key);
    shared.index.unregister(&key, uid);
    let ended = archived(Object::Cell(cell.clone()), None);
    shared.index.publish(Object::Cell(cell));
    let shared = shared.clone();
    tokio::spawn(async move {
        if let Err(error) = shared.keep_ended(ended).await {
            tracing::error!(%error, "the end of a cell was not stored");
        }
    });
    Some(key)
}
