// SPDX-License-Identifier: Apache-2.0
//! Users of units: those that they have for themselves over daemons, which stay theirs as long as
//! they go on and are given back otherwise; and what goes with the last unit of a user.

use units::job::World;
use units::name::UnitName;
use units::unit::Settings;

use super::Manager;
use crate::unit::dynamic::name_of;
use crate::unit::ipc::{self, Owner};
use crate::unit::kept::Use;

/// The user and the group that a unit names.
type Names = (Option<String>, Option<String>);

fn names(settings: &Settings) -> Names {
    let text = |field| settings.text(field).map(str::to_owned);
    (text("User"), text("Group"))
}

/// Whose shared memory and queues go with a unit that is down.
pub(super) struct LeftIpc {
    own: Names,
    others: Vec<Names>,
}

impl LeftIpc {
    /// Removes them. Blocks: it reads the machine's files and the kernel's lists.
    pub(super) fn remove(self) {
        let owner = |(user, group): &Names| Owner::of(user.as_deref(), group.as_deref());
        let others: Vec<_> = self.others.iter().map(owner).collect();
        ipc::remove_of(owner(&self.own).alone(&others));
    }
}

impl Manager {
    /// systemd.exec(5), RemoveIPC=: what its user and group have goes with a unit that is down, but
    /// for those that another unit runs as. In a namespace of its own it has gone already.
    pub(super) fn left_ipc(&self, unit: &UnitName) -> Option<LeftIpc> {
        let settings = &self.known.table.find(unit)?.unit.settings;
        let apart = settings.flag("PrivateIPC") == Some(true)
            || settings.text("IPCNamespacePath").is_some();
        if settings.flag("RemoveIPC") != Some(true) || apart {
            return None;
        }
        let up = self.known.up();
        let others = up.iter().filter(|other| *other != unit);
        let others = others.filter_map(|other| self.known.table.find(other));
        Some(LeftIpc {
            own: names(settings),
            others: others.map(|it| names(&it.unit.settings)).collect(),
        })
    }

    /// Takes over the users that an earlier daemon's units have.
    pub(super) async fn adopt_users(&mut self) {
        let left = &mut self.triggers.left;
        let keys = left.keys().filter(|(what, _)| *what == Use::User);
        let keys: Vec<_> = keys.cloned().collect();
        let taken = keys.iter().filter_map(|key| left.remove(key)).flatten();
        let taken: Vec<(String, u64)> = taken.map(|it| (it.name, it.number)).collect();
        if taken.is_empty() {
            return;
        }
        let up = self.known.up();
        let with_user = |unit: &UnitName| {
            let loaded = self.known.table.find(unit)?;
            let name = name_of(unit, &loaded.unit.settings)?;
            Some((unit.clone(), self.activation(unit), name))
        };
        let up: Vec<_> = up.iter().filter_map(with_user).collect();
        self.users.adopt(taken, &up).await;
    }
}
