// SPDX-License-Identifier: Apache-2.0
//! What a user has left in shared memory and queues (systemd.exec(5), `RemoveIPC=`): who gets the
//! number next would have it. System V's objects go by their numbers, POSIX' by their files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kernel::ipc::{Object, remove};

/// The kernel's lists, and in which column of each the object's number and its owner's are.
const LISTS: [(Object, &str, usize, usize); 3] = [
    (Object::Memory, "/proc/sysvipc/shm", 1, 7),
    (Object::Semaphores, "/proc/sysvipc/sem", 1, 4),
    (Object::Queue, "/proc/sysvipc/msg", 1, 7),
];

/// Removes what belongs to a user. What can't be removed is told.
pub(crate) fn remove_of(uid: u32) {
    for (object, list, id_column, owner_column) in LISTS {
        // A kernel without them has no list.
        let text = fs::read_to_string(list).unwrap_or_default();
        for id in owned(&text, id_column, owner_column, uid) {
            if let Err(error) = remove(object, id) {
                tracing::warn!(uid, id, list, %error, "what a user has left stays");
            }
        }
    }
    for folder in ["/dev/shm", "/dev/mqueue"] {
        remove_files(Path::new(folder), uid);
    }
}

fn owned(text: &str, id_column: usize, owner_column: usize, uid: u32) -> Vec<i32> {
    let of = |line: &str| {
        let mut columns = line.split_whitespace();
        let id = columns.clone().nth(id_column)?.parse().ok()?;
        let owner: u32 = columns.nth(owner_column)?.parse().ok()?;
        (owner == uid).then_some(id)
    };
    text.lines().skip(1).filter_map(of).collect()
}

fn remove_files(folder: &Path, uid: u32) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let owner = entry.metadata().map(|it| (it.uid(), it.is_dir()));
        let removed = match owner {
            Ok((of, false)) if of == uid => fs::remove_file(entry.path()),
            Ok((of, true)) if of == uid => fs::remove_dir_all(entry.path()),
            _ => continue,
        };
        if let Err(error) = removed {
            let path = entry.path();
            tracing::warn!(uid, path = %path.display(), %error, "what a user has left stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_an_object_is_found_in_the_kernels_list() {
        // proc_sysvipc(5).
        let shm = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid\n\
                   0          5  1600                  4096  1  2  0  61184  61184  61184\n\
                   0          6  1600                  4096  1  2  0      0      0      0\n";
        let (_, _, id, owner) = LISTS[0];
        assert_eq!(owned(shm, id, owner, 61_184), [5]);
        let sem = "       key      semid perms      nsems   uid   gid  cuid  cgid\n\
                   0  9  600  1  61184  61184  61184  61184\n";
        let (_, _, id, owner) = LISTS[1];
        assert_eq!(owned(sem, id, owner, 61_184), [9]);
        let msg = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid\n\
                   0  4  600  0  0  1  2  61184  61184\n";
        let (_, _, id, owner) = LISTS[2];
        assert_eq!(owned(msg, id, owner, 61_184), [4]);
    }
}
