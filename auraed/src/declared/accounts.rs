// SPDX-License-Identifier: Apache-2.0
//! Who may have written a user's crontab, as Debian's cron and crontab(1) have it. Called by
//! `files`.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use rustix::fs::Stat;

use super::files::of_root;

/// The mode of a user's crontab.
const OWN_MODE: u32 = 0o600;
/// Those who may write.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
/// Files are removed by their owner alone.
const STICKY: u32 = 0o1000;

/// The accounts of the node, as far as crontabs need them.
#[derive(Default)]
pub(super) struct Accounts {
    users: BTreeMap<String, u32>,
    /// The group as which crontab(1) writes.
    crontab: Option<u32>,
}

impl Accounts {
    pub(super) fn of_node() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::new(&read("/etc/passwd"), &read("/etc/group"))
    }

    /// From the texts of `/etc/passwd` and `/etc/group`.
    pub(super) fn new(passwd: &str, group: &str) -> Self {
        let entry = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((name, fields.nth(1)?.parse().ok()?))
        };
        let groups: BTreeMap<String, u32> = group.lines().filter_map(entry).collect();
        Self {
            users: passwd.lines().filter_map(entry).collect(),
            crontab: groups.get("crontab").copied(),
        }
    }

    /// Whether a file of that name says what that user wishes: it is the user's, or root's.
    pub(super) fn own(&self, name: &OsStr, stat: &Stat) -> Result<(), String> {
        let uid = name.to_str().and_then(|name| self.users.get(name));
        let uid = *uid.ok_or("is named as no user of /etc/passwd")?;
        let owner = stat.st_uid;
        if owner != uid && owner != 0 {
            return Err(format!(
                "belongs to user {owner}, and is done as user {uid}: chown it to that one"
            ));
        }
        match stat.st_mode & 0o7777 {
            OWN_MODE => Ok(()),
            mode => Err(format!(
                "has mode {mode:04o}, and a user's crontab has {OWN_MODE:04o}: chmod it"
            )),
        }
    }

    /// Whether it is as Debian's package makes it: root's, and others than root put files there by
    /// crontab(1) alone.
    pub(super) fn may_be_spool(&self, stat: &Stat) -> Result<(), String> {
        let mode = stat.st_mode & 0o7777;
        let own = self.crontab == Some(stat.st_gid) && mode & STICKY != 0;
        if mode & OTHERS_WRITE == 0 && mode & GROUP_WRITES != 0 && own {
            let mut of_owner = *stat;
            of_owner.st_mode &= !GROUP_WRITES;
            return of_root(&of_owner);
        }
        of_root(stat)
    }
}
