// SPDX-License-Identifier: Apache-2.0
//! Whom a unit's commands run as (systemd.exec(5), "Credentials" and "User/Group Identity").

use units::unit::Settings;

use super::{Failure, failure};
use crate::unit::accounts::{self, User};
use crate::unit::dynamic::Realized;

/// Whom a unit runs as.
#[derive(Default)]
pub(super) struct Account {
    pub(super) user: Option<User>,
    /// The number of its own group.
    pub(super) group: Option<u32>,
    /// The others.
    pub(super) groups: Vec<u32>,
    /// The user is there for the unit alone.
    pub(super) is_dynamic: bool,
}

impl Account {
    /// By the machine's files, or with a user of its own.
    pub(super) fn of(settings: &Settings, dynamic: &Realized) -> Result<Account, Failure> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (passwd, groups) = (read("/etc/passwd"), read("/etc/group"));
        let mut account = Account::default();
        let name = match dynamic {
            Realized::Machines(name) => Some(name.as_str()),
            Realized::None if settings.flag("DynamicUser") == Some(true) => {
                let words = "DynamicUser=: only services have such a user";
                return Err(failure(217, words));
            }
            Realized::None | Realized::Own(_) => settings.text("User"),
        };
        if let Some(own) = dynamic.own() {
            account.user = Some(own.user());
            account.group = Some(own.id);
            account.is_dynamic = true;
        } else if let Some(name) = name {
            let user = accounts::user(&passwd, name);
            let user = user.ok_or_else(|| failure(217, format!("User={name}: there is none")))?;
            account.group = Some(user.gid);
            account.groups = accounts::groups_of(&groups, &user.name);
            account.user = Some(user);
        }
        let group = |name: &str, field: &str| {
            let words = format!("{field}={name}: there is no such group");
            accounts::group(&groups, name).ok_or_else(|| failure(216, words))
        };
        let own = |name: &str| dynamic.own().is_some_and(|it| it.name == name);
        if let Some(name) = settings.text("Group").filter(|it| !own(it)) {
            account.group = Some(group(name, "Group")?);
        }
        for name in settings.texts("SupplementaryGroups") {
            account.groups.push(group(name, "SupplementaryGroups")?);
        }
        account.groups.sort_unstable();
        account.groups.dedup();
        Ok(account)
    }

    /// The user's number, where it isn't root's by default.
    pub(super) fn uid(&self) -> Option<u32> {
        self.user.as_ref().map(|it| it.uid)
    }
}
