// SPDX-License-Identifier: Apache-2.0
//! Runs one program in a session of its own, with the command line's limits, and watches for
//! Ctrl-C and for a reader of the output that has gone.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::Config;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use language::check::Environment;
use language::compile::Options as Compile;
use language::declare::aurae_d_ts;
use language::finding::{Finding, Severity};
use language::prelude;
use language::program::{Entry, Files};
use language::stack;
use script::host::{Mode, NodeHost, Output};
use script::nodes::{Api, Nodes};
use script::program::{LoadError, Loaded, Place};
use script::protocol::{Limit, Module, Start, Thrown};
use script::session::{Interrupter, Options, StartError, Starting};
use tokio::sync::{Notify, oneshot};

use super::entry::{Source, open, unreadable};
use super::{report, values};
use crate::failure::{BROKEN_PIPE, FAILED, FINDINGS, Failure, INTERRUPTED};
use crate::global::{Global, ProgramArgs};
use crate::output::{Style, clear, note};

/// Where a program's output goes, and what is found about its types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Telling {
    /// As it says: to standard output or to standard error.
    #[default]
    Plain,
    /// All of it to standard error: standard output is for something else.
    Aside,
    /// Nowhere but what stops it: it was told before.
    Again,
}

/// A program and how to run it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) source: Source,
    pub(crate) args: Vec<String>,
    pub(crate) mode: Mode,
    root: Option<PathBuf>,
    values: Option<PathBuf>,
    max_memory: Option<u64>,
    telling: Telling,
}

impl Job {
    pub(crate) fn new(
        options: &ProgramArgs,
        source: Source,
        args: Vec<String>,
        mode: Mode,
    ) -> Self {
        Self {
            source,
            args,
            mode,
            root: options.root.clone(),
            values: options.values.clone(),
            max_memory: options.max_memory,
            telling: Telling::Plain,
        }
    }

    pub(crate) fn telling(self, telling: Telling) -> Self {
        Self { telling, ..self }
    }

    fn is_plan(&self) -> bool {
        matches!(self.mode, Mode::Plan(_))
    }

    /// Whether its types are checked before it runs. A run erases them.
    fn is_checked(&self) -> bool {
        matches!(self.mode, Mode::Plan(_) | Mode::Apply(_))
    }
}

/// How a program ended.
pub(crate) struct Done {
    /// The exit status of this client.
    pub(crate) status: u8,
    /// The nodes it spoke to.
    pub(crate) nodes: Arc<Nodes>,
    /// A fingerprint of what was read of it; empty where it didn't run.
    pub(crate) digest: String,
    /// It began to run: what the status says came of running, not of reading.
    ran: bool,
}

impl Done {
    /// The same with another status.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// Whether its way depends on what a plan can't know.
    pub(crate) fn is_planned_unknown(&self) -> bool {
        self.ran && self.status == FINDINGS
    }
}

/// Runs it; an uncaught error is shown on standard error.
///
/// The evaluator starts while the program is read, and the node is reached while the evaluator
/// starts: none of the three waits for another before it must.
pub(crate) async fn execute(global: &Global, job: Job) -> Result<Done, Failure> {
    let style = Style::of(&std::io::stderr(), global.color);
    let mut evaluator = Starting::of_this_program().map_err(not_started)?;
    let config = Config::load(&Config::default_path())?;
    let nodes = Nodes::new(config, global.node.clone(), global.tenant.clone());
    let nodes = Arc::new(match job.is_checked() {
        true => nodes,
        false => nodes.by_parts(),
    });
    let done = |status| Done {
        status,
        nodes: Arc::clone(&nodes),
        digest: String::new(),
        ran: false,
    };
    let Options { start, timeout, .. } = options(global, &job);
    let (tell, told) = oneshot::channel();
    let reaching = Arc::clone(&nodes);
    tokio::spawn(async move {
        if told.await.is_ok() {
            reaching.reach();
        }
    });
    let Some(ready) = ready(&mut evaluator, start, &job, (tell, style)).await? else {
        return Ok(done(if job.is_checked() { FINDINGS } else { FAILED }));
    };
    let running = ready.program;
    if running.mentions(&subsystems()) {
        nodes.reach();
    }
    let running = Arc::new(running);
    let printer = Arc::new(Printer {
        telling: job.telling,
        ..Printer::default()
    });
    let host = NodeHost::new(
        Arc::clone(&nodes),
        Arc::clone(&running),
        Arc::clone(&printer) as Arc<dyn Output>,
        job.mode.clone(),
    );
    let session = evaluator.serve(timeout, Arc::new(host));
    let mut session = session.map_err(not_started)?;
    let watch = tokio::spawn(watch_interrupts(session.interrupter()));
    let entry = running.entry().to_owned();
    let came = tokio::select! {
        came = session.run(ready.modules, &entry) => came,
        () = printer.gone.notified() => return Ok(done(BROKEN_PIPE)),
    };
    watch.abort();
    let status = match came {
        Ok(()) => 0,
        Err(thrown) => {
            let status = status_of(&thrown);
            report::thrown(&thrown, &running, style);
            status
        }
    };
    Ok(Done {
        digest: running.digest_with(ready.values.as_deref()),
        ran: true,
        ..done(status)
    })
}

/// A program whose beginning the evaluator was told.
struct Ready {
    program: Loaded,
    modules: Vec<Module>,
    /// The text of the values that are laid over it.
    values: Option<String>,
}

/// Loads the program and tells the evaluator its beginning: at once, or where a file of values is
/// laid over it when it is known of which type they are. None where it can't be run; why was told.
async fn ready(
    evaluator: &mut Starting,
    start: Start,
    job: &Job,
    (tell, style): (oneshot::Sender<()>, Style),
) -> Result<Option<Ready>, Failure> {
    let values = job
        .values
        .as_deref()
        .map(|file| values::read(file, &job.source));
    let values = values.transpose()?;
    let later = match values {
        Some(values) => Some((values, start)),
        None => {
            evaluator.tell(start).map_err(not_started)?;
            None
        }
    };
    let loaded = match load(job, tell).await? {
        Ok(loaded) => loaded,
        Err(findings) => {
            report::findings(&findings, style);
            return Ok(None);
        }
    };
    if !loaded.warnings.is_empty() && job.telling != Telling::Again {
        report::findings(&loaded.warnings, style);
    }
    let mut ready = Ready {
        program: loaded.program,
        modules: loaded.modules,
        values: None,
    };
    if let Some((mut values, mut start)) = later {
        values::taken_by(&ready.program)?;
        values.expected = loaded.expected;
        ready.values = Some(values.text.clone());
        start.values = Some(values);
        evaluator.tell(start).map_err(not_started)?;
    }
    Ok(Some(ready))
}

/// A program that can be run.
pub(super) struct Read {
    pub(super) program: Loaded,
    pub(super) modules: Vec<Module>,
    /// What keeps it from nothing.
    warnings: Vec<Finding>,
    /// The type of its values, where a file is laid over them.
    pub(super) expected: Option<String>,
}

/// Reads and compiles the program, on another thread. Otherwise what is wrong with its form; of one
/// that is planned or applied, also with its types. Tells before it compiles where the entry itself
/// speaks of a node.
pub(super) async fn load(
    job: &Job,
    tell: oneshot::Sender<()>,
) -> Result<Result<Read, Vec<Finding>>, Failure> {
    let (source, root) = (job.source.clone(), job.root.clone());
    let (plan, is_checked) = (job.is_plan(), job.is_checked());
    let takes_values = job.values.is_some();
    let load = move || {
        let (place, entry) = open(source, root.as_deref())?;
        let spoken = spoken_of(&place, &entry);
        if !spoken.is_empty() {
            // Who waits for it may have given up.
            let _ = tell.send(());
        }
        if !is_checked {
            read_ahead(spoken);
        }
        match Loaded::load(place, entry, &prelude::globals(), Compile { plan }) {
            Ok((running, modules)) => {
                let types = match is_checked || takes_values {
                    true => Some(environment()?),
                    false => None,
                };
                let checked = types.as_ref().filter(|_| is_checked);
                let warnings = checked.map_or_else(Vec::new, |it| running.check(it));
                if warnings.iter().any(|it| it.severity == Severity::Error) {
                    return Ok(Err(warnings));
                }
                let asked = types.as_ref().filter(|_| takes_values);
                let expected = asked.and_then(|it| running.expected(it));
                Ok(Ok(Read {
                    program: running,
                    modules,
                    warnings,
                    expected,
                }))
            }
            Err(LoadError::Read(problem)) => Err(unreadable(problem)),
            Err(LoadError::Findings(findings)) => Ok(Err(findings)),
        }
    };
    // One big stack for all steps, each of which would make its own.
    let loaded = tokio::task::spawn_blocking(|| {
        let no_room = |problem| Failure::new(format!("no room for the parser's stack: {problem}"));
        stack::on_big_stack(load).map_err(no_room)?
    });
    let broken = |problem| Failure::new(format!("the program couldn't be read: {problem}"));
    loaded.await.map_err(broken)?
}

/// The subsystems whose names a program's first module has in it, be it in a comment.
fn spoken_of(place: &Place, entry: &Entry) -> Vec<&'static str> {
    let text = match entry {
        Entry::Text { text, .. } => text.clone(),
        Entry::File(path) => place.text(path).unwrap_or_default(),
    };
    let mut spoken = subsystems();
    spoken.retain(|name| text.contains(name));
    spoken
}

/// Reads what their calls need of the API while the program is compiled. A call waits for its own;
/// without a thread it reads it itself.
fn read_ahead(subsystems: Vec<&'static str>) {
    if !subsystems.is_empty() {
        let read = move || {
            subsystems
                .iter()
                .all(|name| Api::of_subsystem(name).is_ok())
        };
        let _ = std::thread::Builder::new().spawn(read);
    }
}

/// The names by which a program calls a node.
fn subsystems() -> Vec<&'static str> {
    prelude::subsystems().collect()
}

/// What programs are checked against.
fn environment() -> Result<Arc<Environment>, Failure> {
    let types = aurae_d_ts().map_err(|problem| Failure::new(problem.to_string()))?;
    Ok(Arc::new(Environment::new(types)))
}

/// Why there is no evaluator, for people.
pub(crate) fn not_started(problem: StartError) -> Failure {
    let failure = Failure::new(problem.to_string());
    match std::error::Error::source(&problem) {
        Some(source) => failure.with_hint(source.to_string()),
        None => failure,
    }
}

fn status_of(thrown: &Thrown) -> u8 {
    match thrown.limit {
        Some(Limit::Interrupt) => INTERRUPTED,
        Some(Limit::Unknown) => FINDINGS,
        _ => FAILED,
    }
}

pub(crate) fn options(global: &Global, job: &Job) -> Options {
    let mut options = Options::new(Start {
        prelude: vec![Module {
            name: prelude::NAME.to_owned(),
            code: prelude::JAVASCRIPT.to_owned(),
        }],
        args: job.args.clone(),
        max_memory: job.max_memory.unwrap_or_default(),
        plan: job.is_plan(),
        color: Style::of(&std::io::stdout(), global.color).is_coloured(),
        values: None,
    });
    options.timeout = global.timeout.filter(|timeout| *timeout > Duration::ZERO);
    options
}

/// The first Ctrl-C stops the program, which may still say where it was; the second one us.
async fn watch_interrupts(program: Interrupter) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    program.interrupt();
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(INTERRUPTED.into());
    }
}

/// Standard output and error, written by a thread that may wait for their reader; a program that
/// prints waits with it, Ctrl-C doesn't.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    gone: Notify,
    telling: Telling,
}

impl Printer {
    /// One that shows nothing.
    pub(super) fn silent() -> Self {
        Self {
            telling: Telling::Again,
            ..Self::default()
        }
    }
}

impl Output for Printer {
    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()> {
        let error = error || self.telling == Telling::Aside;
        let again = self.telling == Telling::Again;
        async move {
            if again {
                return;
            }
            let written = tokio::task::spawn_blocking(move || write(error, &text)).await;
            match written {
                Ok(Err(problem)) if problem.kind() == ErrorKind::BrokenPipe && !error => {
                    self.gone.notify_one();
                }
                Ok(Err(problem)) if !error => note(&format!("can't write the output: {problem}")),
                _ => {}
            }
        }
        .boxed()
    }
}

fn write(error: bool, text: &str) -> std::io::Result<()> {
    clear();
    if error {
        return std::io::stderr().lock().write_all(text.as_bytes());
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
