// SPDX-License-Identifier: Apache-2.0
//! What a user or a group has left in shared memory and queues (systemd.exec(5), `RemoveIPC=`). It
//! goes with a unit that asks for it, and with the user of `DynamicUser=`: who gets the number next
//! would have it. System V's objects go by their numbers, POSIX' by their files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kernel::ipc::{Object, remove};

use super::accounts;

/// The kernel's lists, and in which column of each the object's number and its user's are. The
/// group's follows.
const LISTS: [(Object, &str, usize, usize); 3] = [
    (Object::Memory, "/proc/sysvipc/shm", 1, 7),
    (Object::Semaphores, "/proc/sysvipc/sem", 1, 4),
    (Object::Queue, "/proc/sysvipc/msg", 1, 7),
];

/// Whose objects: those of a user, and those of a group. Root's are never meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Owner {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

impl Owner {
    /// Whom a unit runs as, where it says so: `User=`, and `Group=` or else the user's own. Reads
    /// the machine's files.
    pub(crate) fn of(user: Option<&str>, group: Option<&str>) -> Owner {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let user = user.and_then(|user| accounts::user(&read("/etc/passwd"), user));
        let group = group.and_then(|group| accounts::group(&read("/etc/group"), group));
        Owner {
            uid: user.as_ref().map(|it| it.uid),
            gid: group.or(user.map(|it| it.gid)),
        }
    }

    /// Without root, and without what others are, too.
    pub(crate) fn alone(self, others: &[Owner]) -> Owner {
        let other = |it: &u32, of: fn(&Owner) -> Option<u32>| {
            *it == 0 || others.iter().any(|other| of(other) == Some(*it))
        };
        Owner {
            uid: self.uid.filter(|it| !other(it, |of| of.uid)),
            gid: self.gid.filter(|it| !other(it, |of| of.gid)),
        }
    }

    fn has(self, uid: u32, gid: u32) -> bool {
        self.uid == Some(uid) || self.gid == Some(gid)
    }
}

/// Removes what belongs to them. What can't be removed is told.
pub(crate) fn remove_of(owner: Owner) {
    if owner == Owner::default() {
        return;
    }
    for (object, list, id_column, owner_column) in LISTS {
        // A kernel without them has no list.
        let text = fs::read_to_string(list).unwrap_or_default();
        for id in owned(&text, id_column, owner_column, owner) {
            if let Err(error) = remove(object, id) {
                tracing::warn!(?owner, id, list, %error, "what a user has left stays");
            }
        }
    }
    for folder in ["/dev/shm", "/dev/mqueue"] {
        remove_files(Path::new(folder), owner);
    }
}

fn owned(text: &str, id_column: usize, owner_column: usize, owner: Owner) -> Vec<i32> {
    let of = |line: &str| {
        let mut columns = line.split_whitespace();
        let id = columns.clone().nth(id_column)?.parse().ok()?;
        let uid = columns.nth(owner_column)?.parse().ok()?;
        let gid = columns.next()?.parse().ok()?;
        owner.has(uid, gid).then_some(id)
    };
    text.lines().skip(1).filter_map(of).collect()
}

fn remove_files(folder: &Path, owner: Owner) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let of = entry.metadata().map(|it| (it.uid(), it.gid(), it.is_dir()));
        let removed = match of {
            Ok((uid, gid, false)) if owner.has(uid, gid) => fs::remove_file(entry.path()),
            Ok((uid, gid, true)) if owner.has(uid, gid) => fs::remove_dir_all(entry.path()),
            _ => continue,
        };
        if let Err(error) = removed {
            let path = entry.path();
            tracing::warn!(?owner, path = %path.display(), %error, "what a user has left stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Owner = Owner {
        uid: Some(61_184),
        gid: None,
    };

    #[test]
    fn root_and_who_runs_elsewhere_lose_nothing() {
        let of = |uid, gid| Owner {
            uid: Some(uid),
            gid: Some(gid),
        };
        assert_eq!(of(0, 0).alone(&[]), Owner::default());
        assert_eq!(of(7, 8).alone(&[of(9, 9)]), of(7, 8));
        let group = Owner {
            uid: None,
            gid: Some(8),
        };
        assert_eq!(of(7, 8).alone(&[of(7, 9)]), group);
        assert!(group.has(1, 8) && !group.has(8, 1));
        assert_eq!(Owner::of(Some("root"), None), of(0, 0));
        assert_eq!(Owner::of(None, None), Owner::default());
    }

    #[test]
    fn the_owner_of_an_object_is_found_in_the_kernels_list() {
        // proc_sysvipc(5).
        let shm = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid\n\
                   0          5  1600                  4096  1  2  0  61184  61184  61184\n\
                   0          6  1600                  4096  1  2  0      0      0      0\n";
        let (_, _, id, owner) = LISTS[0];
        assert_eq!(owned(shm, id, owner, OWN), [5]);
        let sem = "       key      semid perms      nsems   uid   gid  cuid  cgid\n\
                   0  9  600  1  61184  61184  61184  61184\n";
        let (_, _, id, owner) = LISTS[1];
        assert_eq!(owned(sem, id, owner, OWN), [9]);
        let msg = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid\n\
                   0  4  600  0  0  1  2  61184  61184\n";
        let (_, _, id, owner) = LISTS[2];
        assert_eq!(owned(msg, id, owner, OWN), [4]);
    }
}
