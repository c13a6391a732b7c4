// SPDX-License-Identifier: Apache-2.0
//! Memory that can be given back: a buffer whose pages exist only while they are used, and the
//! program's own code.
//!
//! The allocator keeps what was freed for later. A thousand cell-inits, each with a large packet
//! once a day, must give it back at once.

use std::ops::{Deref, DerefMut};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::{Context, Error, Result};

/// A zeroed, anonymous, private mapping. Pages that were never written take no memory.
#[derive(Debug)]
pub struct Scratch {
    // From mmap, of `length` bytes, owned by this value alone and unmapped by its drop.
    start: *mut u8,
    length: usize,
}

impl Scratch {
    /// A buffer of `length` bytes.
    ///
    /// # Errors
    /// `EINVAL`: `length` is 0 or beyond `isize::MAX`. `ENOMEM`: the kernel refuses so much memory.
    pub fn new(length: usize) -> Result<Scratch> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        if length == 0 || isize::try_from(length).is_err() {
            return Err(Error::new("mmap", Errno::INVAL));
        }
        // SAFETY: no address is asked for, so no mapping that is in use is replaced.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, flags) };
        Ok(Scratch {
            start: start.call("mmap")?.cast(),
            length,
        })
    }

    /// Gives the pages back; the buffer is zero again.
    pub fn discard(&mut self) {
        // SAFETY: the range is this value's own mapping. It is private and anonymous, so the pages
        // read as zeros afterwards; `&mut` says that no other code reads them meanwhile. A failure
        // changes nothing.
        let _ =
            unsafe { rustix::mm::madvise(self.start.cast(), self.length, Advice::LinuxDontNeed) };
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is initialised (to zeros), and lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference to it is left.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.length) };
    }
}

/// Makes all threads allocate from one heap, which grows in large steps. With a heap per thread,
/// every few pages cost a system call that keeps all other threads from mapping memory. For a
/// program of few threads, before it starts them.
pub fn use_one_heap() {
    // SAFETY: two numbers; what the allocator doesn't know it refuses.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Joins what is freed with what is free beside it, in a process that lives long. The allocator
/// otherwise keeps small freed pieces apart, each for a request of its own size, until something
/// large is asked for. Where pieces grow before they are freed no request is of that size, and the
/// heap grows with every round (mallopt(3), `M_MXFAST`).
pub fn join_freed() {
    // SAFETY: two numbers; what the allocator doesn't know it refuses.
    let _ = unsafe { libc::mallopt(libc::M_MXFAST, 0) };
}

/// Gives freed memory back to the kernel where it is at least so many bytes; says whether it was.
/// The allocator by itself gives back only what is free at the heap's end, so that one small piece
/// keeps what a flood has taken below it. All threads wait for their next allocation meanwhile,
/// some milliseconds for a hundred mebibytes: for once in a while (malloc_trim(3)).
pub fn release_heap(least: usize) -> bool {
    // SAFETY: it takes nothing, and answers numbers.
    let free = unsafe { libc::mallinfo2() }.fordblks;
    if free < least {
        return false;
    }
    // SAFETY: a number of bytes to keep at the heap's end; only pages that nothing is allocated in
    // are given back.
    let given = unsafe { libc::malloc_trim(0) };
    given == 1
}

/// Unmaps the program's code and constants; what is used again comes back from the page cache, a
/// few pages at a time. For a process that has started and will wait from now on: each fault maps
/// what lies around it too, so a start leaves most of a binary mapped, and counted as its memory.
/// Breakpoints that a debugger has set go with it. A failure changes nothing.
pub fn release_code() {
    unsafe extern "C" {
        static __executable_start: u8;
        static etext: u8;
    }
    const PAGE: usize = 4096;
    let (start, end) = (&raw const __executable_start, &raw const etext);
    let length = end.addr().saturating_sub(start.addr()) / PAGE * PAGE;
    // SAFETY: the linker's own symbols: the range is the program's headers, constants and code, on
    // a page boundary, mapped privately from the executable and never written. So a page that is
    // dropped reads the same when it is needed again, the ones that this runs on included.
    let _ = unsafe { rustix::mm::madvise(start.cast_mut().cast(), length, Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_was_given_back_still_runs() {
        let share = || {
            let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
            let number = line.unwrap().trim().trim_end_matches(" kB");
            number.parse::<u64>().unwrap()
        };
        let before = share();
        release_code();
        assert!(share() < before, "nothing was given back");
        assert_eq!("still".to_uppercase(), "STILL");
    }

    #[test]
    fn what_a_flood_has_taken_is_given_back_below_what_stays() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
            pages * 4096
        };
        // Pieces too small for mappings of their own, and one that is allocated after them.
        let flood: Vec<Vec<u8>> = (0..1024).map(|_| vec![7; 64 << 10]).collect();
        let last = vec![7; 64 << 10];
        let full = resident();
        drop(flood);
        // Where the last piece found a place elsewhere, the allocator has given it back by itself.
        release_heap(0);
        let after = resident();
        assert!(after + (32 << 20) < full, "{full} bytes, then {after}");
        assert!(last.iter().all(|byte| *byte == 7));
        assert!(!release_heap(usize::MAX), "so much is never free");
    }

    #[test]
    fn it_is_zero_at_first_and_after_it_was_given_back() {
        let mut scratch = Scratch::new(100_000).unwrap();
        assert!(scratch.iter().all(|byte| *byte == 0));
        scratch.fill(7);
        scratch.discard();
        assert_eq!(scratch.len(), 100_000);
        assert!(scratch.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn nothing_can_not_be_had() {
        Scratch::new(0).expect_err("no bytes");
        Scratch::new(usize::MAX).expect_err("more than there is");
    }
}
