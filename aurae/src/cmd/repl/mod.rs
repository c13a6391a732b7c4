// SPDX-License-Identifier: Apache-2.0
//! `aurae` on a terminal: a prompt. Lines are compiled here, evaluated in a session that lives as
//! long as the prompt, and their values printed. Ctrl-C ends the evaluation; a session that had to
//! be killed is replaced by a new one. The [`editor`] does typing, history and completion, on a
//! thread of its own because it blocks.

mod above;
mod command;
mod editor;
mod types;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::Config;
use language::compile::{Options as Compile, compile_repl};
use language::program::Entry;
use language::root::Root;
use language::source::Source as Text;
use script::host::{Mode, NodeHost, Output};
use script::nodes::Nodes;
use script::program::{Loaded, Place};
use script::protocol::Thrown;
use script::session::{Options, Session};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::script::entry::{Source, unreadable};
use super::script::execute::{Job, not_started, options};
use super::script::report;
use crate::failure::Failure;
use crate::global::{Global, ProgramArgs};
use crate::output::{Style, note, print_line};
use above::Above;
use command::Command;
use editor::{Ask, Offer};
use types::Types;

/// Reads, evaluates and prints until Ctrl-D or `.exit`.
pub(crate) async fn run(global: &Global, args: &ProgramArgs) -> Result<u8, Failure> {
    let (asks, mut asked) = mpsc::channel(1);
    let (prompts, to_prompt) = editor::start(history(), asks)?;
    let above = Above::start(to_prompt)?;
    let printer: Arc<dyn Output> = above.clone();
    let mut repl = Repl::start(global, args, printer).await?;
    print_line("Aurae. `.help` shows what there is beside the language; Ctrl-D ends.")?;
    let prompt = || {
        above.prompting(true);
        let lost = |_| Failure::new("the prompt has ended");
        prompts.send(()).map_err(lost)
    };
    prompt()?;
    while let Some(ask) = asked.recv().await {
        above.prompting(matches!(ask, Ask::Complete { .. }));
        match ask {
            Ask::Complete { line, at, reply } => {
                // An editor that doesn't wait any more wants no answer.
                let _ = reply.send(repl.offer(&line, at).await);
                continue;
            }
            Ask::Line(line) => {
                if !repl.take(&line).await? {
                    break;
                }
            }
            Ask::Stopped => note("(Ctrl-D or .exit ends)"),
            Ask::End => break,
            Ask::Failed(problem) => return Err(Failure::new(problem)),
        }
        prompt()?;
    }
    Ok(0)
}

/// Where the history is kept: `aurae/history` in `$XDG_STATE_HOME`, else `~/.local/state`.
fn history() -> Option<PathBuf> {
    client::user_folder("XDG_STATE_HOME", ".local/state").map(|state| state.join("aurae/history"))
}

/// The state of the prompt.
struct Repl {
    running: Arc<Loaded>,
    host: Arc<NodeHost>,
    options: Options,
    session: Session,
    types: Types,
    /// The folder that imports are resolved in.
    root: PathBuf,
    interrupts: Signal,
    style: Style,
    /// Lines so far: each has its number in errors.
    count: usize,
    /// The lines that were evaluated without an error, for `.save`.
    good: Vec<String>,
}

impl Repl {
    async fn start(
        global: &Global,
        args: &ProgramArgs,
        printer: Arc<dyn Output>,
    ) -> Result<Self, Failure> {
        let nodes = Arc::new(Nodes::new(
            Config::load(&Config::default_path())?,
            global.node.clone(),
            global.tenant.clone(),
        ));
        let root = args.root.as_deref().unwrap_or(Path::new(".")).to_owned();
        let place = Place::Folder(Root::open(&root).map_err(unreadable)?);
        let entry = Entry::Text {
            name: "<repl>".to_owned(),
            text: String::new(),
        };
        let (running, _) = Loaded::load(place, entry, &[], Compile::default())
            .map_err(|problem| Failure::new(format!("can't begin: {problem:?}")))?;
        let running = Arc::new(running);
        let host = NodeHost::new(nodes, Arc::clone(&running), printer, Mode::Run);
        let host = Arc::new(host);
        let job = Job::new(args, Source::Code(String::new()), Vec::new(), Mode::Run);
        let options = options(global, &job);
        let session = begin(&options, &host)?;
        let interrupts = signal(SignalKind::interrupt())
            .map_err(|problem| Failure::new(format!("can't watch for Ctrl-C: {problem}")))?;
        Ok(Self {
            running,
            host,
            options,
            session,
            types: Types::begin(Root::open(&root).map_err(unreadable)?),
            root,
            interrupts,
            style: Style::of(&std::io::stderr(), global.color),
            count: 0,
            good: Vec::new(),
        })
    }

    /// Does what a line says; whether to go on.
    async fn take(&mut self, line: &str) -> Result<bool, Failure> {
        let meant = command::meant_by(line, &self.good).map(Ok);
        match meant.or_else(|| Command::of(line)) {
            None => {
                self.count += 1;
                let name = format!("<repl:{}>", self.count);
                self.evaluate(&name, line).await?;
            }
            Some(Ok(Command::Exit)) => return Ok(false),
            Some(Ok(Command::Help)) => print_line(command::HELP)?,
            Some(Ok(Command::Type(expression))) => match self.types.of(&expression).await? {
                Ok(told) => print_line(&told)?,
                Err(findings) => report::findings(&findings, self.style),
            },
            Some(Ok(Command::Load(file))) => match command::load(&file) {
                Ok(text) => self.evaluate(&file.display().to_string(), &text).await?,
                Err(problem) => note(&problem),
            },
            Some(Ok(Command::Save(file))) => match command::save(&file, &self.good) {
                Ok(()) => note(&format!("wrote {}", file.display())),
                Err(problem) => note(&problem),
            },
            Some(Err(problem)) => note(&problem),
        }
        Ok(true)
    }

    /// Evaluates what was typed, or a file; errors call it `name`.
    async fn evaluate(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let compiled = match compile_repl(&Text::new(name, text), Compile::default()) {
            Ok(compiled) => compiled,
            Err(findings) => {
                report::findings(&findings, self.style);
                return Ok(());
            }
        };
        let code = compiled.code.clone();
        self.running.keep(compiled);
        // Types are no reason not to evaluate it.
        let warnings = self.types.take(name, text).await?;
        if !warnings.is_empty() {
            report::findings(&warnings, self.style);
        }
        let came = self.watched(name, &code).await;
        match came {
            Ok(value) => {
                self.good.push(text.to_owned());
                if let Some(value) = value {
                    print_line(&value)?;
                }
            }
            Err(thrown) => report::thrown(&thrown, &self.running, self.style),
        }
        if !self.session.is_alive() {
            self.session = begin(&self.options, &self.host)?;
            self.types = Types::begin(Root::open(&self.root).map_err(unreadable)?);
            note("The evaluator had to be started again: earlier definitions are lost.");
        }
        Ok(())
    }

    /// The names that fit in a line: by its types, and by the values of the session.
    async fn offer(&mut self, line: &str, at: usize) -> Offer {
        let typed = self.types.complete(line, at).await;
        let live = match editor::word(line.get(..at).unwrap_or(line)) {
            Some((path, _)) => {
                let path = path.into_iter().map(str::to_owned).collect();
                self.session.names(path).await
            }
            None => Vec::new(),
        };
        Offer { typed, live }
    }

    /// Evaluates; Ctrl-C meanwhile stops that.
    async fn watched(&mut self, name: &str, code: &str) -> Result<Option<String>, Box<Thrown>> {
        let interrupter = self.session.interrupter();
        let evaluation = self.session.evaluate(name, code);
        tokio::pin!(evaluation);
        loop {
            tokio::select! {
                came = &mut evaluation => return came.map_err(Box::new),
                _ = self.interrupts.recv() => interrupter.interrupt(),
            }
        }
    }
}

fn begin(options: &Options, host: &Arc<NodeHost>) -> Result<Session, Failure> {
    let host = Arc::clone(host) as Arc<dyn script::session::Host>;
    Session::start(options.clone(), host).map_err(not_started)
}
