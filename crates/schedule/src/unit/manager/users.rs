// SPDX-License-Identifier: Apache-2.0
//! Dynamic users over daemons: those of units that go on stay theirs, the others are given back.

use units::job::World;
use units::name::UnitName;

use super::Manager;
use crate::unit::dynamic::name_of;
use crate::unit::kept::Use;

impl Manager {
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
