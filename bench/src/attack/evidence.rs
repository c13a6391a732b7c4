// SPDX-License-Identifier: Apache-2.0
//! What an attack has done, told to who measures beside it in a file that both see: a line every
//! tenth of a second with what was done since the line before. A line says that the attack runs,
//! its number that it does something; who finds neither measured beside nothing.
//!
//! The attack counts (`Done`), `rows::neighbour` reads (`Told`).

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Between two lines.
const EVERY: Duration = Duration::from_millis(100);

/// What is done, as the attack counts it.
#[derive(Clone, Debug)]
pub(super) struct Done(Arc<AtomicU64>);

impl Done {
    /// Told in this file from now on; none: not told.
    pub(super) fn told_in(file: Option<&Path>) -> Result<Self> {
        let done = Self(Arc::default());
        if let Some(path) = file {
            let file = File::options().append(true).create(true).open(path);
            let file = file.with_context(|| path.display().to_string())?;
            let counted = done.clone();
            // A thread of its own: the attack may never wait.
            thread::spawn(move || counted.tell(file));
        }
        Ok(done)
    }

    pub(super) fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&self, mut file: File) {
        loop {
            let done = self.0.swap(0, Ordering::Relaxed);
            if file.write_all(format!("{done}\n").as_bytes()).is_err() {
                // Told with the next line.
                self.0.fetch_add(done, Ordering::Relaxed);
            }
            // A line says that the attack runs: it is due by time.
            thread::sleep(EVERY);
        }
    }
}

/// What an attack has told so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Told {
    pub(crate) lines: usize,
    pub(crate) done: u64,
}

impl Told {
    /// In this file. Nothing where there is none: an attack that never started.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(Self::of(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    fn of(text: &str) -> Self {
        let numbers = text.lines().filter_map(|line| line.parse().ok());
        numbers.fold(Self::default(), |told, done: u64| Self {
            lines: told.lines + 1,
            done: told.done + done,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_added_up() {
        let told = Told { lines: 3, done: 7 };
        assert_eq!(Told::of("0\n4\n3\n"), told);
        assert_eq!(Told::of(""), Told::default());
    }

    #[test]
    fn an_attack_without_a_file_has_told_nothing() {
        let nowhere = Path::new("/nonexistent/streams.done");
        assert_eq!(Told::read(nowhere).expect("no file"), Told::default());
        assert!(Done::told_in(Some(nowhere)).is_err());
    }
}
