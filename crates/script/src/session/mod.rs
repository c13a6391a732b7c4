// SPDX-License-Identifier: Apache-2.0
//! The evaluator seen from its parent: starts the process, sends it programs, serves what they ask
//! for through a [`Host`], and ends it when it doesn't end by itself.
//!
//! A session trusts its evaluator with nothing: a message that breaks the protocol ends the
//! process. Limits act twice. First the evaluator is asked to stop, and the session goes on; if it
//! hasn't within [`GRACE`], the process is killed and the session is over ([`Session::is_alive`]):
//! a caller that wants to go on starts another.
//!
//! What calls mean, which files may be read and how a stack is shown are the host's (`host`).
//!
//! ```text
//!  start ──► idle ──run, evaluate──► busy ──Done──► idle
//!                                     │ └─interrupt, timeout─► asked ──Done──► idle
//!                                     ▼                          │ GRACE
//!                                    gone ◄──────kill────────────┘
//! ```

mod calls;
mod process;
mod serve;
mod starting;
mod unsure;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::protocol::codec::{self, CodecError, MAX_TO};
use crate::protocol::{
    Assumed, Call, Failure, Limit, Module, Moved, Name, Start, Thrown, ToEvaluator,
};
use crate::value::Value;

pub use calls::Items;
use process::Process;
use serve::Event;
pub use starting::Starting;

/// How long an evaluator that was asked to stop may run; then it is killed. It is its own time on a
/// processor that counts: on a busy machine a session, with all that was typed, isn't lost because
/// its evaluator had no turn.
pub const GRACE: Duration = Duration::from_millis(80);
/// The longest that it is waited for, whether it runs or not.
const LONGEST: Duration = Duration::from_secs(2);

/// This program, and what makes it an evaluator.
const THIS_PROGRAM: &str = "/proc/self/exe";
const ROLE: &str = "eval";

/// Frames on their way to the evaluator before who sends one more waits.
const QUEUE: usize = 64;

/// How an evaluator is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that plays the role; by default this one.
    pub program: PathBuf,
    /// What tells it so.
    pub arguments: Vec<OsString>,
    /// What the program gets.
    pub start: Start,
    /// How long one `run` or `evaluate` may take.
    pub timeout: Option<Duration>,
}

impl Options {
    /// Bytes of the engine's heap unless the caller says otherwise.
    pub const MAX_MEMORY: u64 = 256 << 20;

    /// This program as `eval`, without a time limit, with [`Self::MAX_MEMORY`] if `start` says 0.
    pub fn new(mut start: Start) -> Self {
        if start.max_memory == 0 {
            start.max_memory = Self::MAX_MEMORY;
        }
        Self {
            program: PathBuf::from(THIS_PROGRAM),
            arguments: vec![OsString::from(ROLE)],
            start,
            timeout: None,
        }
    }
}

/// What a program asks for, and gets from us. Every call runs as a task of its own, which is
/// dropped when the program cancels it or ends.
pub trait Host: Send + Sync + 'static {
    /// Finds, reads and compiles a module that wasn't preloaded.
    fn import(&self, specifier: String, from: String) -> BoxFuture<'_, Result<Module, Failure>>;

    /// Reads a file below the root; at most what fits [`codec::MAX_TO`].
    fn read_file(&self, path: String, from: String) -> BoxFuture<'_, Result<Vec<u8>, Failure>>;

    /// The names of the contexts whose labels match the selector, sorted; an error where none does.
    fn nodes(&self, selector: String) -> BoxFuture<'_, Result<Vec<String>, Failure>>;

    /// Shows text; the program waits when it prints faster than this returns.
    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()>;

    /// A plan goes on as if a test passed; only told by a program that is planned.
    fn assume(&self, assumed: Assumed);

    /// The program has given an object another path.
    ///
    /// # Errors
    /// It says so too often, which ends it.
    fn moved(&self, moved: Moved) -> Result<(), String>;

    /// A unary call (`stream` is false).
    fn call(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Value, Failure>>;

    /// A stream: opened with the call, and read one item ahead of what is asked for. What the
    /// program sends comes in `items`, which ends when it closes its side; a method that doesn't
    /// take a stream of requests ignores them. Nothing is asked for after a failure.
    fn stream(
        self: Arc<Self>,
        call: Call,
        items: Items,
    ) -> BoxStream<'static, Result<Value, Failure>>;
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process couldn't be started.
    #[error("can't start the evaluator `{}`", program.display())]
    Process {
        /// What was to be executed.
        program: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The prelude or the arguments are too long.
    #[error("can't send the evaluator its beginning")]
    Start(#[from] CodecError),
    /// Its socket can't be written or watched.
    #[error("can't speak to the evaluator")]
    Socket(#[source] std::io::Error),
}

/// Stops what a session evaluates, from elsewhere: Ctrl-C.
#[derive(Clone, Debug)]
pub struct Interrupter(Arc<Notify>);

impl Interrupter {
    /// Stops what is being evaluated; if nothing is, the next that begins.
    pub fn interrupt(&self) {
        self.0.notify_one();
    }
}

/// A live evaluator and what it was told. Dropping it kills the process and cancels its calls.
#[derive(Debug)]
pub struct Session {
    to: mpsc::Sender<Vec<u8>>,
    events: mpsc::Receiver<Event>,
    interrupts: Arc<Notify>,
    timeout: Option<Duration>,
    /// Bytes of the engine's heap.
    memory: u64,
    /// Something has ended for want of memory.
    was_full: bool,
    process: Process,
    alive: bool,
    /// Names were asked for, and the caller waits for them no longer.
    names_owed: bool,
    /// How it ended while nothing was evaluated.
    ended: Option<Event>,
}

impl Session {
    /// Starts an evaluator. It returns before the evaluator has run its prelude: an error there is
    /// the first `run`'s or `evaluate`'s. Within a tokio runtime.
    ///
    /// # Errors
    /// The process can't be started, or the beginning doesn't fit a frame.
    pub fn start(options: Options, host: Arc<dyn Host>) -> Result<Session, StartError> {
        let mut starting = Starting::new(&options.program, &options.arguments)?;
        starting.tell(options.start)?;
        starting.serve(options.timeout, host)
    }

    /// Runs a program: its modules, of which `entry` is one, until it ends, its timers and calls
    /// too.
    ///
    /// # Errors
    /// The error that was not caught, or what ended it.
    pub async fn run(&mut self, modules: Vec<Module>, entry: &str) -> Result<(), Thrown> {
        self.preload(modules).await?;
        let entry = entry.to_owned();
        self.finish(&ToEvaluator::Run { entry }).await.map(|_| ())
    }

    /// Gives the evaluator modules that will be imported.
    ///
    /// # Errors
    /// One is too long for a frame, or the evaluator is gone.
    pub async fn preload(&mut self, modules: Vec<Module>) -> Result<(), Thrown> {
        for module in modules {
            self.send(&ToEvaluator::Preload(module)).await?;
        }
        Ok(())
    }

    /// Evaluates a compiled line; its value comes printed, `undefined` as nothing.
    ///
    /// # Errors
    /// The error that was not caught, or what ended it.
    pub async fn evaluate(&mut self, name: &str, code: &str) -> Result<Option<String>, Thrown> {
        self.finish(&ToEvaluator::Evaluate {
            name: name.to_owned(),
            code: code.to_owned(),
        })
        .await
    }

    /// The names that can follow `path` (`["runtime"]`: what `runtime.` may go on with). Empty
    /// where there is no such value, where the evaluator is gone, or where it is busy for longer
    /// than [`GRACE`]; a busy one goes on.
    pub async fn names(&mut self, path: Vec<String>) -> Vec<Name> {
        let asked = tokio::time::timeout(GRACE, self.ask_names(path)).await;
        asked.unwrap_or_default()
    }

    async fn ask_names(&mut self, path: Vec<String>) -> Vec<Name> {
        // One question at a time, so that none pile up before an evaluator that is busy.
        if self.names_owed && self.owed_names().await.is_none() {
            return Vec::new();
        }
        if self.send(&ToEvaluator::Names { path }).await.is_err() {
            return Vec::new();
        }
        self.names_owed = true;
        self.owed_names().await.unwrap_or_default()
    }

    /// Waits for the names that were asked for; none where the evaluator is gone.
    async fn owed_names(&mut self) -> Option<Vec<Name>> {
        let event = self.events.recv().await;
        self.names_owed = false;
        if let Some(Event::Names(names)) = event {
            return Some(names);
        }
        // Nothing else was asked for: it has ended. The next that is evaluated says how.
        self.alive = false;
        self.ended = event;
        None
    }

    /// What comes next, without names that came too late for who had asked.
    async fn event(&mut self) -> Option<Event> {
        if let Some(ended) = self.ended.take() {
            return Some(ended);
        }
        loop {
            match self.events.recv().await {
                Some(Event::Names(_)) if self.names_owed => self.names_owed = false,
                event => return event,
            }
        }
    }

    /// A handle that stops what is being evaluated.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(Arc::clone(&self.interrupts))
    }

    /// Whether it can evaluate more.
    pub fn is_alive(&self) -> bool {
        self.alive
    }

    /// The evaluator's process, for who watches it.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn finish(&mut self, request: &ToEvaluator) -> Result<Option<String>, Thrown> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        self.send(request).await?;
        let expired = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let interrupts = Arc::clone(&self.interrupts);
        let limit = tokio::select! {
            biased;
            event = self.event() => return self.done(event).await,
            () = interrupts.notified() => Limit::Interrupt,
            () = expired => Limit::Timeout,
        };
        self.stop(limit).await
    }

    /// Asks the evaluator to stop, and kills it if it doesn't.
    async fn stop(&mut self, limit: Limit) -> Result<Option<String>, Thrown> {
        let pid = self.process.pid();
        let asked = async {
            self.send(&ToEvaluator::Interrupt).await?;
            let event = self.event().await;
            Ok::<_, Thrown>(event)
        };
        match in_its_time(pid, asked).await {
            Some(event) => match self.done(event?).await {
                Err(mut thrown) if thrown.limit == Some(Limit::Interrupt) => {
                    thrown.limit = Some(limit);
                    thrown.message = self.reason(limit);
                    Err(thrown)
                }
                other => other,
            },
            None => {
                self.kill().await;
                let place = "; where it was isn't known, as it had to be killed";
                Err(Thrown::limit(limit, self.reason(limit) + place))
            }
        }
    }

    fn reason(&self, limit: Limit) -> String {
        match (limit, self.timeout) {
            (Limit::Timeout, Some(timeout)) => {
                format!("stopped: it took longer than {timeout:?} (--timeout)")
            }
            _ => "stopped: interrupted".to_owned(),
        }
    }

    async fn done(&mut self, event: Option<Event>) -> Result<Option<String>, Thrown> {
        match event {
            Some(Event::Done(result)) => result.map_err(|thrown| self.told(thrown)),
            Some(Event::Names(_)) => {
                self.kill().await;
                Err(lost("it answered a call that was not made"))
            }
            Some(Event::Gone(why)) => {
                let end = self.kill().await;
                Err(lost(&why.unwrap_or(end)))
            }
            None => {
                let end = self.kill().await;
                Err(lost(&end))
            }
        }
    }

    async fn send(&mut self, message: &ToEvaluator) -> Result<(), Thrown> {
        let frame = codec::encode(message, MAX_TO)
            .map_err(|e| Thrown::limit(Limit::Evaluator, e.to_string()))?;
        if self.to.send(frame).await.is_err() {
            let event = self.event().await;
            self.done(event).await?;
        }
        Ok(())
    }

    /// Kills the process if it is there still, and says how it ended.
    async fn kill(&mut self) -> String {
        self.alive = false;
        self.process.kill().await
    }
}

/// What an evaluator answers before it has run for [`GRACE`].
async fn in_its_time<T>(pid: u32, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    let (asked, before) = (Instant::now(), process::ran(pid));
    loop {
        if let Ok(answer) = tokio::time::timeout(GRACE, &mut answer).await {
            return Some(answer);
        }
        // A kernel that doesn't say how long it ran: the clock on the wall counts.
        let ran = before.zip(process::ran(pid));
        let ran = ran.map_or(GRACE, |(before, now)| now.saturating_sub(before));
        if ran >= GRACE || asked.elapsed() >= LONGEST {
            return None;
        }
    }
}

fn lost(why: &str) -> Thrown {
    Thrown::limit(
        Limit::Evaluator,
        format!("the evaluator ended in the middle of the program: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// One that has no turn on a processor loses nothing by it; one that runs on is given up.
    #[tokio::test]
    async fn an_evaluator_is_given_its_own_time_and_no_more() {
        let mut idle = Command::new("sleep").arg("60").spawn().unwrap();
        let late = async {
            tokio::time::sleep(GRACE * 4).await;
            "stopped"
        };
        assert_eq!(in_its_time(idle.id(), late).await, Some("stopped"));
        idle.kill().unwrap();
        idle.wait().unwrap();
        let mut busy = Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let never = std::future::pending::<()>();
        assert_eq!(in_its_time(busy.id(), never).await, None);
        busy.kill().unwrap();
        busy.wait().unwrap();
    }
}
