// SPDX-License-Identifier: Apache-2.0
//! A line on standard error for what takes long: a spinner, or the steps of an apply. Nothing for a
//! quick step. Where standard error isn't a terminal a spinner says nothing, and steps say every 10
//! seconds, on a line of their own, what is still being done.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A step that is done sooner shows no spinner.
const DELAY: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// How often steps are told where no terminal is.
const REMINDER: Duration = Duration::from_secs(10);

/// Whether such a line stands on the terminal now.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Takes the line away, so that something else can be printed; the next tick brings it back.
pub(crate) fn clear() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        // A terminal that is gone needs no clearing.
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

fn show(line: &str) {
    SHOWN.store(true, Ordering::Relaxed);
    // A terminal that is gone needs no spinner.
    let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
}

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
        show(&format!("{frame} {text} ({seconds}s)"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            clear();
        }
    }
}

/// Something long that says itself how far it is. The line goes when this is dropped.
pub(crate) struct Told {
    what: String,
    words: Arc<Mutex<String>>,
    task: tokio::task::JoinHandle<()>,
}

impl Told {
    /// Begins to tell.
    pub(crate) fn start(what: String) -> Self {
        let words = Arc::new(Mutex::new(what.clone()));
        let task = match std::io::stderr().is_terminal() {
            true => tokio::spawn(draw_words(Arc::clone(&words))),
            false => tokio::spawn(remind_words(Arc::clone(&words))),
        };
        Self { what, words, task }
    }

    /// How far it is now.
    pub(crate) fn say(&self, how_far: String) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        *words = format!("{}: {how_far}", self.what);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.task.abort();
        clear();
    }
}

fn line_of(words: &Mutex<String>, since: Instant) -> String {
    let words = words.lock().unwrap_or_else(PoisonError::into_inner);
    format!("{words} ({}s)", since.elapsed().as_secs())
}

async fn draw_words(words: Arc<Mutex<String>>) {
    let started = Instant::now();
    let mut ticks = tokio::time::interval_at((started + DELAY).into(), STEP);
    for frame in FRAMES.iter().cycle() {
        ticks.tick().await;
        show(&format!("{frame} {}", line_of(&words, started)));
    }
}

async fn remind_words(words: Arc<Mutex<String>>) {
    let started = Instant::now();
    let mut ticks = tokio::time::interval_at((started + REMINDER).into(), REMINDER);
    loop {
        ticks.tick().await;
        super::note(&line_of(&words, started));
    }
}

/// The steps of something long: what is being done, how many are done. The line goes when the last
/// of its clones is dropped.
#[derive(Clone)]
pub(crate) struct Steps(Arc<Shared>);

struct Shared {
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

struct State {
    /// What is being done, the oldest first.
    open: Vec<String>,
    done: usize,
    /// How many there are, where a plan has said it.
    of: Option<usize>,
}

impl Steps {
    /// Begins to tell, of `of` steps if that is known.
    pub(crate) fn start(of: Option<usize>) -> Self {
        let state = Arc::new(Mutex::new(State {
            open: Vec::new(),
            done: 0,
            of,
        }));
        let task = match std::io::stderr().is_terminal() {
            true => tokio::spawn(draw(Arc::clone(&state))),
            false => tokio::spawn(remind(Arc::clone(&state))),
        };
        Self(Arc::new(Shared { state, task }))
    }

    /// A step has begun.
    pub(crate) fn begin(&self, what: String) {
        self.lock().open.push(what);
    }

    /// A step has ended; one that never began is none.
    pub(crate) fn end(&self, what: &str) {
        let mut state = self.lock();
        if let Some(at) = state.open.iter().position(|open| open == what) {
            state.open.remove(at);
            state.done += 1;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
        clear();
    }
}

/// `create executable web/app and 2 more: 3 of 12 done (4s)`; none where nothing is being done.
fn told(state: &Mutex<State>, since: Instant) -> Option<String> {
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let first = state.open.first()?;
    let more = match state.open.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let of = state.of.map(|of| format!(" of {of}")).unwrap_or_default();
    let (done, seconds) = (state.done, since.elapsed().as_secs());
    Some(format!("{first}{more}: {done}{of} done ({seconds}s)"))
}

async fn draw(state: Arc<Mutex<State>>) {
    let started = Instant::now();
    let mut ticks = tokio::time::interval_at((started + DELAY).into(), STEP);
    for frame in FRAMES.iter().cycle() {
        ticks.tick().await;
        match told(&state, started) {
            Some(line) => show(&format!("{frame} {line}")),
            None => clear(),
        }
    }
}

async fn remind(state: Arc<Mutex<State>>) {
    let started = Instant::now();
    let mut ticks = tokio::time::interval_at((started + REMINDER).into(), REMINDER);
    loop {
        ticks.tick().await;
        if let Some(line) = told(&state, started) {
            super::note(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_say_what_is_done_and_how_much() {
        let state = |open: &[&str], of| {
            let open = open.iter().map(|one| (*one).to_owned()).collect();
            Mutex::new(State { open, done: 3, of })
        };
        let now = Instant::now();
        assert_eq!(told(&state(&[], Some(4)), now), None);
        let one = told(&state(&["stop cell a"], Some(4)), now).unwrap();
        assert_eq!(one, "stop cell a: 3 of 4 done (0s)");
        let more = told(&state(&["stop cell a", "b", "c"], None), now).unwrap();
        assert_eq!(more, "stop cell a and 2 more: 3 done (0s)");
    }
}
