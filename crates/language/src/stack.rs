// SPDX-License-Identifier: Apache-2.0
//! A thread with a stack deep enough for any program that the limits let through. The parser, the
//! transformer, the printer, the formatter and every visitor recurse as deep as the program nests:
//! code that touches a syntax tree runs inside [`on_big_stack`]. Code that keeps trees (an editors'
//! server) runs as a whole inside one call; calls within it run where they are.

use std::cell::Cell;
use std::io;
use std::thread::{Scope, ScopedJoinHandle};

/// The stack's size in bytes. Only what is used becomes memory. A program at the limits' edge
/// (`limits`) needs less than half of it in a debug build; a test holds that.
pub const STACK_BYTES: usize = 256 << 20;

thread_local! {
    static BIG: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on a thread with a stack of [`STACK_BYTES`] and waits for it; in place where the
/// caller runs on one already. A panic in `work` goes on in the caller.
///
/// # Errors
/// The system has no room for the thread: says so, and nothing ran.
pub fn on_big_stack<R: Send>(work: impl FnOnce() -> R + Send) -> io::Result<R> {
    if is_big() {
        return Ok(work());
    }
    match on_fresh_stack(work)? {
        Ok(result) => Ok(result),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// As [`on_big_stack`], but always on a thread of its own; a panic comes back as an error.
///
/// # Errors
/// The system has no room for the thread: says so, and nothing ran.
pub(crate) fn on_fresh_stack<R: Send>(
    work: impl FnOnce() -> R + Send,
) -> io::Result<std::thread::Result<R>> {
    std::thread::scope(|scope| Ok(spawn_big(scope, work)?.join()))
}

/// Begins `work` on a thread of the scope with a stack of [`STACK_BYTES`].
///
/// # Errors
/// The system has no room for the thread: says so, and nothing runs.
pub(crate) fn spawn_big<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> R + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, R>> {
    std::thread::Builder::new()
        .name("parser".into())
        .stack_size(STACK_BYTES)
        .spawn_scoped(scope, || {
            BIG.set(true);
            work()
        })
}

/// Whether the caller runs on a big stack.
pub fn is_big() -> bool {
    BIG.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_within_a_call_stays_on_its_thread() {
        let outer = on_big_stack(|| {
            let inner = on_big_stack(|| std::thread::current().id()).unwrap();
            (std::thread::current().id(), inner)
        });
        let (outer, inner) = outer.unwrap();
        assert_eq!(outer, inner);
        assert_ne!(outer, std::thread::current().id());
    }
}
