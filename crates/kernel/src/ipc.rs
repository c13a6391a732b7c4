// SPDX-License-Identifier: Apache-2.0
//! Objects of System V's IPC (sysvipc(7)): their removal by number. Who owns them the kernel lists
//! in `/proc/sysvipc`.

use crate::Result;
use crate::error::check;

/// A kind of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// Shared memory.
    Memory,
    /// Sets of semaphores.
    Semaphores,
    /// Message queues.
    Queue,
}

/// Removes an object of the calling process's IPC namespace. Shared memory goes when no process
/// is attached to it any more.
///
/// # Errors
/// `EINVAL`, `EIDRM`: there is none of that number. `EPERM`: it is another user's.
pub fn remove(object: Object, id: i32) -> Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    let (call, number) = match object {
        Object::Memory => ("shmctl", libc::SYS_shmctl),
        Object::Semaphores => ("semctl", libc::SYS_semctl),
        Object::Queue => ("msgctl", libc::SYS_msgctl),
    };
    // semctl has the number of a semaphore in between, which IPC_RMID passes over.
    // SAFETY: with IPC_RMID the kernel reads and writes no memory of the caller's.
    let result = unsafe {
        match object {
            Object::Semaphores => libc::syscall(number, id, 0, libc::IPC_RMID, nothing),
            _ => libc::syscall(number, id, libc::IPC_RMID, nothing),
        }
    };
    check(call, result).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_by_its_number_and_once() {
        // SAFETY: no memory of the caller's is touched.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
        assert!(id >= 0);
        remove(Object::Memory, id).unwrap();
        remove(Object::Memory, id).unwrap_err();
        for object in [Object::Semaphores, Object::Queue] {
            remove(object, i32::MAX).unwrap_err();
        }
    }
}
