// SPDX-License-Identifier: Apache-2.0
//! A spinner on standard error for a step that takes long. Nothing where standard error isn't a
//! terminal, and nothing for a quick step.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A step that is done sooner shows no spinner.
const DELAY: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A running spinner; it goes when dropped.
pub(crate) struct Progress {
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Progress {
    /// Says what is being waited for.
    pub(crate) fn start(text: impl Into<String>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { task: None };
        }
        let text = text.into();
        Self {
            task: Some(tokio::spawn(spin(text))),
        }
    }
}

async fn spin(text: String) {
    let started = Instant::now();
    let mut ticks = tokio::time::interval_at((started + DELAY).into(), STEP);
    for frame in FRAMES.iter().cycle() {
        ticks.tick().await;
        let seconds = started.elapsed().as_secs();
        // A terminal that is gone needs no spinner.
        let _ = write!(std::io::stderr(), "\r\x1b[K{frame} {text} ({seconds}s)");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
