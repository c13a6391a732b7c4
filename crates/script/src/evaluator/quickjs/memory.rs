// SPDX-License-Identifier: Apache-2.0
//! Where the engine's memory is full: how its failures are named, and how a session goes on. Part
//! of [`QuickJs`]. What isn't enough for a program is its caller's to say (`--max-memory`).

use super::QuickJs;
use crate::protocol::{Frame, Limit, Thrown};

/// What is said where the engine had no memory left.
pub(super) const FULL: &str = "out of memory";
/// What a line finds free, in bytes, where what ran before it has filled the memory.
const ROOM: usize = 512 << 10;
/// The most beyond the limit of memory that such lines get together, in bytes.
const RESERVE: usize = 8 << 20;

/// Where the limit of memory leaves no room for the engine itself.
pub(super) const TOO_LITTLE: &str = "it needs more memory to begin with: see --max-memory";

fn out_of_memory(stack: Vec<Frame>) -> Thrown {
    Thrown {
        stack,
        ..Thrown::limit(Limit::Memory, FULL)
    }
}

impl QuickJs {
    /// The engine throws `null` where it has no memory left for an error of its own. What it threw
    /// may have let go of the memory since: then its parent tells (`Thrown::unsure`).
    pub(super) fn named(&self, thrown: Thrown) -> Thrown {
        let says_nothing = thrown.name.is_empty() && thrown.message.is_empty();
        if thrown.limit.is_some() || !(thrown.unsure || says_nothing) {
            return thrown;
        }
        let memory = self.runtime.memory_usage();
        let full = memory.malloc_limit > 0
            && memory.malloc_size >= memory.malloc_limit.saturating_sub(memory.malloc_limit / 8);
        match (full, thrown.unsure) {
            (true, _) => out_of_memory(thrown.stack),
            (false, true) => thrown,
            (false, false) => Thrown {
                name: "InternalError".to_owned(),
                message: "the engine failed, and didn't say why".to_owned(),
                ..thrown
            },
        }
    }

    /// The same of what is ours, and never throws `null`: the engine did.
    pub(super) fn named_ours(&self, thrown: Thrown) -> Thrown {
        let thrown = self.named(thrown);
        match thrown.unsure {
            true => out_of_memory(thrown.stack),
            false => thrown,
        }
    }

    /// The same of what was begun before any program.
    pub(super) fn too_little(&self, thrown: Thrown) -> Thrown {
        let thrown = self.named_ours(thrown);
        match thrown.limit {
            Some(Limit::Memory) => Thrown::limit(Limit::Memory, TOO_LITTLE),
            _ => thrown,
        }
    }

    /// Lets a line of a session run whose memory is full of what is still reachable, so that it can
    /// be looked at and let go.
    pub(super) fn make_room(&self) {
        if !self.full {
            return;
        }
        self.runtime.run_gc();
        let used = usize::try_from(self.runtime.memory_usage().malloc_size).unwrap_or(0);
        let wanted = used.saturating_add(ROOM);
        let most = self.memory.saturating_add(RESERVE);
        self.runtime
            .set_memory_limit(wanted.clamp(self.memory, most));
    }
}
