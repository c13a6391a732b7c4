// SPDX-License-Identifier: Apache-2.0
//! An allocator for a process that must not end for lack of memory: PID 1.
//!
//! A Rust program aborts when the kernel refuses it memory; when PID 1 aborts, the kernel panics. A
//! process that has called [`wait_for_memory`] waits instead: it does nothing else meanwhile,
//! writes one line to standard error, and goes on as soon as it gets memory. (The kernel refuses
//! memory under strict overcommit or a limit; where memory is merely used up, the kernel kills a
//! process, which is never PID 1.)
//!
//! It is `auraed`'s global allocator. The inits call [`wait_for_memory`]; the daemon doesn't,
//! because it may end and is started again. This is the one place in the crate that sleeps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};

/// A larger request is refused at once instead of waiting, in bytes: no correct code asks for it.
const LARGEST: usize = 64 << 20;
/// The time between two attempts: 10 ms.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
const SAID: &[u8] = b"auraed: no memory is left; init waits for some\n";

static WAITS: AtomicBool = AtomicBool::new(false);

/// From now on this process, and every clone of it that doesn't execute, waits where the kernel
/// refuses it memory. Has an effect only where [`WaitForMemory`] is its global allocator.
pub fn wait_for_memory() {
    WAITS.store(true, Ordering::Relaxed);
}

/// The system's allocator, and [`wait_for_memory`].
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitForMemory;

// SAFETY: every request is handed to the system's allocator as it came, once or more often until
// it is met; what it returns is handed back unchanged.
unsafe impl GlobalAlloc for WaitForMemory {
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

/// Asks until there is memory; null at once where this process doesn't wait, or wants more than
/// [`LARGEST`]. Allocates nothing itself.
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
