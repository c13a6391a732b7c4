// SPDX-License-Identifier: Apache-2.0
//! Fuzzes programs: `checks/program.rs` says what must hold. All inputs are looked at on one
//! thread with the stack that programs need: threads of that size for each step of each input took
//! nearly all of the time under the sanitizer.
#![no_main]

#[path = "../checks/program.rs"]
mod checks;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The thread's ends: what it shall look at, and that it has.
struct Looker {
    give: SyncSender<Vec<u8>>,
    done: Receiver<()>,
}

static LOOKER: LazyLock<Mutex<Looker>> = LazyLock::new(|| {
    let (give, given) = sync_channel::<Vec<u8>>(1);
    let (told, done) = sync_channel(1);
    std::thread::spawn(move || {
        let look = || {
            for bytes in given {
                checks::check(&bytes);
                if told.send(()).is_err() {
                    break;
                }
            }
        };
        language::stack::on_big_stack(look).expect("there is room for a stack");
    });
    Mutex::new(Looker { give, done })
});

// A panic there aborts the process as one here does: libFuzzer's hook is of all threads.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let looker = LOOKER.lock().unwrap_or_else(PoisonError::into_inner);
    looker.give.send(bytes.to_vec()).expect("it waits for more");
    looker.done.recv().expect("it says when it has looked");
});
