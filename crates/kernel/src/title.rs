// SPDX-License-Identifier: Apache-2.0
//! The title that `ps` shows of this process: the memory of its arguments, written over.
//!
//! A title has at most the length of the arguments that the process was executed with: a process
//! that is to have a long title is started with a long argument. For single-threaded processes that
//! have read their arguments.

use crate::error::Error;
use crate::{Context, Result, clone};
use rustix::io::Errno;

/// The memory of the arguments.
#[derive(Clone, Copy, Debug)]
pub struct Title {
    /// Where it begins. The kernel's word for this very process; it is never unmapped.
    start: usize,
    length: usize,
}

impl Title {
    /// Finds it, by `/proc/self/stat`.
    ///
    /// # Errors
    /// `EBUSY`: the process has other threads, which may read its arguments. `ENOENT`: there is no
    /// `/proc`. `EINVAL`: the kernel doesn't say where the arguments are.
    pub fn find() -> Result<Title> {
        if !clone::is_single_threaded()? {
            return Err(Error::new("title", Errno::BUSY).about("the process has other threads"));
        }
        let stat = std::fs::read_to_string("/proc/self/stat").call("read /proc/self/stat")?;
        let (start, end) =
            arguments(&stat).ok_or_else(|| Error::invalid("title", "no arguments"))?;
        Ok(Title {
            start,
            length: end - start,
        })
    }

    /// Shows this from now on, cut where it is longer than the room.
    pub fn set(&self, text: &str) {
        let room = self.length.saturating_sub(1);
        for at in 0..self.length {
            let byte = text.as_bytes().get(at).filter(|_| at < room);
            let place = std::ptr::with_exposed_provenance_mut::<u8>(self.start + at);
            // SAFETY: the kernel said that the arguments lie there, in writable memory of this
            // process that stays mapped; no other thread reads them, and the last byte stays NUL,
            // so that every argument still ends within.
            unsafe { place.write_volatile(byte.copied().unwrap_or(0)) }
        }
    }
}

/// `arg_start` and `arg_end`, fields 48 and 49 of proc_pid_stat(5).
fn arguments(stat: &str) -> Option<(usize, usize)> {
    // The name may have anything in it, and ends with the last parenthesis.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(48 - 3);
    let start: usize = fields.next()?.parse().ok()?;
    let end: usize = fields.next()?.parse().ok()?;
    (start != 0 && start < end && end - start <= 64 * 1024).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_found_behind_any_name() {
        let numbers: Vec<String> = (4..=52).map(|n| (n * 1000).to_string()).collect();
        let stat = format!("7 (a ) b) S {}", numbers.join(" "));
        assert_eq!(arguments(&stat), Some((48_000, 49_000)));
        assert_eq!(arguments("7 (a) S 1 2"), None);
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(arguments(&own).is_some());
    }
}
