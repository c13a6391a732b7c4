// SPDX-License-Identifier: Apache-2.0
//! An allocator for a process that must not end for want of memory: PID 1.
//!
//! Where memory can't be had, a Rust program aborts; when PID 1 does, the kernel panics. A process
//! that has called [`wait_for_memory`] waits instead: it does nothing else meanwhile, says so once,
//! and goes on where it was as soon as there is some. (The kernel refuses memory under strict
//! overcommit or a limit; a machine that has merely used it all kills somebody, who is never PID
//! 1.)
//!
//! `auraed` has it as its global allocator; the inits call [`wait_for_memory`], the daemon doesn't:
//! it may end, and is started again. The one place in this crate that sleeps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};

/// More than this at once nobody waits for: nothing that is right asks for it, and who does can
/// bear the refusal.
const LARGEST: usize = 64 << 20;
/// Between two attempts.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
const SAID: &[u8] = b"auraed: no memory is left; init waits for some\n";

static WAITS: AtomicBool = AtomicBool::new(false);

/// From now on this process, and every clone of it that doesn't execute, waits for memory that
/// can't be had, where [`Patient`] is its global allocator.
pub fn wait_for_memory() {
    WAITS.store(true, Ordering::Relaxed);
}

/// The system's allocator, and [`wait_for_memory`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Patient;

// SAFETY: every request is handed to the system's allocator as it came, once or more often until
// it is met; what it returns is handed back unchanged.
unsafe impl GlobalAlloc for Patient {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise for `layout` is `System`'s condition.
        let ask = || unsafe { System.alloc(layout) };
        or_wait(ask(), layout.size(), ask)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let ask = || unsafe { System.alloc_zeroed(layout) };
        or_wait(ask(), layout.size(), ask)
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are `System`'s conditions; a refused request leaves the
        // block as it was, so it may be made again.
        let ask = || unsafe { System.realloc(block, layout, size) };
        or_wait(ask(), size, ask)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `System`, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[inline]
fn or_wait(first: *mut u8, size: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
    if first.is_null() {
        wait(size, ask)
    } else {
        first
    }
}

/// Nothing here allocates.
#[cold]
fn wait(size: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
    if !WAITS.load(Ordering::Relaxed) || size > LARGEST {
        return std::ptr::null_mut();
    }
    say();
    loop {
        let _ = rustix::thread::nanosleep(&PAUSE);
        let block = ask();
        if !block.is_null() {
            return block;
        }
    }
}

/// On standard error, if it takes the line at once.
fn say() {
    let console = rustix::stdio::stderr();
    let mut ready = [PollFd::from_borrowed_fd(console, PollFlags::OUT)];
    if rustix::event::poll(&mut ready, Some(&Timespec::default())) == Ok(1) {
        let _ = rustix::io::write(console, SAID);
    }
}
