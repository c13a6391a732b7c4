// SPDX-License-Identifier: Apache-2.0
//! Bytes that no process can change any more: a sealed `memfd` (memfd_create(2), fcntl(2)).
//!
//! For messages that are too long for a packet, and for a program that processes of other users
//! run. The receiver checks the seals before it looks: without them the sender could change, or cut
//! off, what is being read.

use std::ffi::CStr;
use std::io::Write;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Context, Error, Result};

/// The seals that make content and size final, themselves included.
const SEALS: SealFlags = SealFlags::SEAL
    .union(SealFlags::SHRINK)
    .union(SealFlags::GROW)
    .union(SealFlags::WRITE);

/// A sealed file in memory with these bytes. `name` is shown in `/proc/PID/fd`.
///
/// # Errors
/// `ENOMEM`, `ENOSPC`: no memory for it. `EMFILE`, `ENFILE`: no descriptor is left.
pub fn seal(name: &CStr, bytes: &[u8]) -> Result<OwnedFd> {
    copy(name, &mut &*bytes)
}

/// A sealed file in memory with all that `from` has to say.
///
/// # Errors
/// Those of [`seal`], and of reading.
pub fn copy(name: &CStr, from: &mut impl std::io::Read) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create(name, flags).call("memfd_create")?;
    let mut file = std::fs::File::from(memory);
    std::io::copy(from, &mut file)
        .and_then(|_| file.flush())
        .call("write to a memfd")?;
    rustix::fs::fcntl_add_seals(&file, SEALS).call("fcntl(F_ADD_SEALS)")?;
    Ok(file.into())
}

/// The size of a sealed file in bytes.
///
/// # Errors
/// `EINVAL`: the descriptor isn't of a file that is sealed in content and size. `EFBIG`: it is
/// longer than `limit`.
pub fn size(file: impl AsFd, limit: usize) -> Result<usize> {
    let unsealed = || Error::invalid("memfd", "a descriptor that isn't a sealed memfd");
    let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| unsealed())?;
    if !seals.contains(SEALS) {
        return Err(unsealed());
    }
    let stat = rustix::fs::fstat(&file).call("fstat")?;
    let size = usize::try_from(stat.st_size).map_err(|_| unsealed())?;
    if size > limit {
        let detail = format!("a memfd of {size} bytes; the limit is {limit}");
        return Err(Error::new("memfd", Errno::FBIG).about(detail));
    }
    Ok(size)
}

/// The bytes of a sealed file, mapped: they take no memory of the reader's own.
#[derive(Debug)]
pub struct Sealed {
    // From mmap, of `length` bytes (not 0), owned by this value alone and unmapped by its drop.
    start: *const u8,
    length: usize,
}

impl Sealed {
    /// Maps a file that [`seal`] made.
    ///
    /// # Errors
    /// Those of [`size`]; `EINVAL` for an empty one. `ENOMEM`: the kernel refuses the mapping.
    pub fn open(file: impl AsFd, limit: usize) -> Result<Sealed> {
        let length = size(&file, limit)?;
        if length == 0 {
            return Err(Error::invalid("memfd", "an empty memfd"));
        }
        let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
        // SAFETY: no address is asked for, so no mapping that is in use is replaced.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, &file, 0) };
        Ok(Sealed {
            start: start.call("mmap")?.cast(),
            length,
        })
    }
}

impl Deref for Sealed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length and lives as long as `self`. The seals were checked:
        // the file can be neither cut nor written, and seals can't be taken away.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference to it is left.
        let _ = unsafe { rustix::mm::munmap(self.start.cast_mut().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_read_and_can_not_be_changed() {
        let file = seal(c"test", b"the bytes").unwrap();
        assert_eq!(&*Sealed::open(&file, 9).unwrap(), b"the bytes");
        let mut file = std::fs::File::from(file);
        file.write_all(b"other").unwrap_err();
        file.set_len(1).unwrap_err();
        assert_eq!(&*Sealed::open(&file, 9).unwrap(), b"the bytes");
    }

    #[test]
    fn what_is_not_sealed_or_too_long_is_refused() {
        let file = seal(c"test", b"the bytes").unwrap();
        assert_eq!(Sealed::open(&file, 8).unwrap_err().errno(), libc::EFBIG);
        let open = rustix::fs::memfd_create(c"open", MemfdFlags::ALLOW_SEALING).unwrap();
        assert_eq!(Sealed::open(&open, 9).unwrap_err().errno(), libc::EINVAL);
        let half = rustix::fs::memfd_create(c"half", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::fcntl_add_seals(&half, SealFlags::WRITE | SealFlags::GROW).unwrap();
        assert_eq!(Sealed::open(&half, 9).unwrap_err().errno(), libc::EINVAL);
        let disk = tempfile::tempfile().unwrap();
        assert_eq!(Sealed::open(&disk, 9).unwrap_err().errno(), libc::EINVAL);
        let empty = seal(c"test", b"").unwrap();
        assert_eq!(Sealed::open(&empty, 9).unwrap_err().errno(), libc::EINVAL);
    }
}
