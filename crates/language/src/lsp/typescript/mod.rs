// SPDX-License-Identifier: Apache-2.0
//! TypeScript's own language service as a child beside ours, where TypeScript 7 is there: what is
//! ordinary TypeScript is its answer. It hears what the editor says of the modules, sees them in a
//! folder of ours (`mirror`), and is asked what [`FORWARDED`] lists. The loop never waits for it:
//! what it doesn't answer in time, or at all, is answered by us. It may die at any instant; then it
//! is started anew, a few times. It isn't asked to rename or to format: ours refuse what would
//! break a program, and have one form for all.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use lsp_server::{Message, Notification, Request, RequestId, Response};
use lsp_types::Uri;
use serde_json::{Value, json};

use super::Incoming;
use super::findings::Made;
use crate::tsc::Compiler;

pub(super) mod merge;
mod mirror;
mod own_folder;
mod pipe;

pub(super) use mirror::Mirror;
use pipe::Pipe;

/// What it is asked in our stead.
const FORWARDED: [&str; 17] = [
    "callHierarchy/incomingCalls",
    "callHierarchy/outgoingCalls",
    "completionItem/resolve",
    "textDocument/codeAction",
    "textDocument/completion",
    "textDocument/definition",
    "textDocument/documentHighlight",
    "textDocument/foldingRange",
    "textDocument/hover",
    "textDocument/implementation",
    "textDocument/inlayHint",
    "textDocument/prepareCallHierarchy",
    "textDocument/selectionRange",
    "textDocument/signatureHelp",
    "textDocument/typeDefinition",
    "workspace/symbol",
    "workspace/willRenameFiles",
];

/// How long the editor waits for an answer of it, before ours.
const WITHIN: Duration = Duration::from_secs(2);

/// How long it may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);

/// Questions that wait for it; one too many is ours.
const ASKED: usize = 64;

/// After so many late answers in a row it is taken for hung.
const LATE: u32 = 5;

/// How often it is started.
const STARTS: u32 = 3;

/// A question that it has.
pub(super) enum Asked {
    /// The editor's.
    Request(Request),
    /// What is wrong with a document; ours has been found.
    Findings { version: u64, uri: Uri, made: Made },
}

/// What came of a question: its result, or none.
pub(super) type Answered = (Asked, Option<Value>);

struct Waiting {
    asked: Asked,
    until: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Beginning { until: Instant },
    Ready,
    Gone,
}

/// The child, and what it has been asked.
pub(super) struct Companion {
    compiler: Compiler,
    sender: SyncSender<Incoming>,
    /// The editor's capabilities: it answers in forms that the editor knows.
    capabilities: Value,
    mirror: Mirror,
    pipe: Option<Pipe>,
    state: State,
    starts: u32,
    /// Of the child and of questions alike, never used twice.
    next: i32,
    asked: HashMap<i32, Waiting>,
    late: u32,
}

/// The question that begins a conversation.
const BEGIN: i32 = 0;

impl Companion {
    /// Starts it.
    ///
    /// # Errors
    /// There is no room for its folder.
    pub(super) fn new(
        compiler: Compiler,
        sender: SyncSender<Incoming>,
        capabilities: Value,
        cache: Option<&Path>,
    ) -> io::Result<Self> {
        let mut companion = Self {
            compiler,
            sender,
            capabilities,
            mirror: Mirror::new(cache)?,
            pipe: None,
            state: State::Gone,
            starts: 0,
            next: BEGIN + 1,
            asked: HashMap::new(),
            late: 0,
        };
        companion.start();
        Ok(companion)
    }

    fn start(&mut self) {
        self.starts += 1;
        self.late = 0;
        let generation = self.starts;
        let begun = Pipe::open(&self.compiler, generation, self.sender.clone());
        let Ok(pipe) = begun else {
            self.state = State::Gone;
            return;
        };
        self.pipe = Some(pipe);
        self.state = State::Beginning {
            until: Instant::now() + BEGINS_WITHIN,
        };
        let mut capabilities = self.capabilities.clone();
        demand(&mut capabilities);
        let params = json!({
            "processId": std::process::id(),
            "rootUri": null,
            "capabilities": capabilities,
        });
        let request = Request::new(BEGIN.into(), "initialize".to_owned(), params);
        self.send(Message::Request(request));
    }

    /// Starts it again if it is gone; true if it was.
    pub(super) fn revive(&mut self) -> bool {
        let gone = self.state == State::Gone && self.starts < STARTS;
        if gone {
            self.start();
        }
        gone
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// What can't be written to it is lost with it.
    fn send(&mut self, message: Message) {
        let sent = self.pipe.as_ref().is_some_and(|pipe| pipe.send(message));
        if !sent {
            self.end();
        }
    }

    fn end(&mut self) {
        self.pipe = None;
        self.state = State::Gone;
        // Answered by us at the next look at the clock.
        for waiting in self.asked.values_mut() {
            waiting.until = Instant::now();
        }
    }

    /// Asks it the editor's question; given back where it isn't asked.
    pub(super) fn forward(&mut self, request: Request) -> Option<Request> {
        let is_its = FORWARDED.contains(&request.method.as_str());
        if !is_its || !self.is_ready() {
            return Some(request);
        }
        let Some(params) = self.mirror.outward(&request.params) else {
            return Some(request);
        };
        let method = request.method.clone();
        match self.ask(&method, params, Asked::Request(request))? {
            Asked::Request(request) => Some(request),
            Asked::Findings { .. } => None,
        }
    }

    /// Asks what is wrong with a document; given back where it isn't asked.
    pub(super) fn findings(
        &mut self,
        version: u64,
        uri: Uri,
        made: Made,
    ) -> Option<(u64, Uri, Made)> {
        let params = json!({ "textDocument": { "uri": uri.as_str() } });
        let params = self.mirror.outward(&params).filter(|_| self.is_ready());
        let asked = Asked::Findings { version, uri, made };
        let back = match params {
            Some(params) => self.ask("textDocument/diagnostic", params, asked)?,
            None => asked,
        };
        match back {
            Asked::Findings { version, uri, made } => Some((version, uri, made)),
            Asked::Request(_) => None,
        }
    }

    fn ask(&mut self, method: &str, params: Value, asked: Asked) -> Option<Asked> {
        if self.asked.len() >= ASKED {
            return Some(asked);
        }
        let id = self.next;
        self.next = self.next.checked_add(1).unwrap_or(BEGIN + 1);
        let until = Instant::now() + WITHIN;
        self.asked.insert(id, Waiting { asked, until });
        let request = Request::new(id.into(), method.to_owned(), params);
        self.send(Message::Request(request));
        None
    }

    /// The editor takes a question back: it, if it was asked.
    pub(super) fn take_back(&mut self, id: &RequestId) -> bool {
        let is_it = |waiting: &Waiting| match &waiting.asked {
            Asked::Request(request) => request.id == *id,
            Asked::Findings { .. } => false,
        };
        let found = self.asked.iter().find(|(_, waiting)| is_it(waiting));
        let Some(own) = found.map(|(own, _)| *own) else {
            return false;
        };
        self.asked.remove(&own);
        self.tell("$/cancelRequest", json!({ "id": own }));
        true
    }

    fn tell(&mut self, method: &str, params: Value) {
        if self.pipe.is_some() {
            let told = Notification::new(method.to_owned(), params);
            self.send(Message::Notification(told));
        }
    }

    /// Passes on what the editor says of a document.
    pub(super) fn hear(&mut self, told: &Notification) {
        if self.is_ready()
            && let Some(params) = self.mirror.outward(&told.params)
        {
            self.tell(&told.method, params);
        }
    }

    /// Tells it of a document that is open, in a project that it may not know yet.
    pub(super) fn open(&mut self, project: &Path, uri: &Uri, path: &str, text: &str) {
        if !self.is_ready() || self.mirror.add(project).is_err() {
            return;
        }
        // Without a file of that name it would be in no project.
        self.mirror.ensure(project, path);
        let document =
            json!({ "uri": uri.as_str(), "languageId": "typescript", "version": 0, "text": text });
        let params = json!({ "textDocument": document });
        if let Some(params) = self.mirror.outward(&params) {
            self.tell("textDocument/didOpen", params);
        }
    }

    /// Files may have come or gone.
    pub(super) fn reread(&mut self) {
        let changed = self.mirror.reread();
        if !changed.is_empty() {
            self.tell(
                "workspace/didChangeWatchedFiles",
                json!({ "changes": changed }),
            );
        }
    }

    /// The next instant at which something is overdue.
    pub(super) fn due(&self) -> Option<Instant> {
        let asked = self.asked.values().map(|waiting| waiting.until).min();
        let begins = match self.state {
            State::Beginning { until } => Some(until),
            State::Ready | State::Gone => None,
        };
        asked.into_iter().chain(begins).min()
    }

    /// Questions whose time is over.
    pub(super) fn overdue(&mut self) -> Vec<Answered> {
        let now = Instant::now();
        if matches!(self.state, State::Beginning { until } if until <= now) {
            self.end();
        }
        let over = self
            .asked
            .iter()
            .filter(|(_, waiting)| waiting.until <= now);
        let mut over: Vec<i32> = over.map(|(id, _)| *id).collect();
        over.sort_unstable();
        if self.is_ready() && !over.is_empty() {
            self.late += 1;
            if self.late >= LATE {
                self.end();
            }
        }
        let over = over.into_iter();
        over.filter_map(|id| Some((self.asked.remove(&id)?.asked, None)))
            .collect()
    }

    /// Something that it said; a question that is answered by it. True where it has just begun.
    pub(super) fn said(
        &mut self,
        generation: u32,
        said: Option<Message>,
    ) -> (Option<Answered>, bool) {
        if generation != self.starts {
            return (None, false);
        }
        match said {
            None => self.end(),
            Some(Message::Response(response)) => return self.answered(response),
            Some(Message::Request(request)) => {
                let result = match request.method.as_str() {
                    "workspace/configuration" => settings(&request.params),
                    _ => Value::Null,
                };
                self.send(Message::Response(Response::new_ok(request.id, result)));
            }
            Some(Message::Notification(_)) => {}
        }
        (None, false)
    }

    fn answered(&mut self, response: Response) -> (Option<Answered>, bool) {
        let Ok(id) = response.id.to_string().parse::<i32>() else {
            return (None, false);
        };
        let result = response.response_result.ok();
        if id == BEGIN && matches!(self.state, State::Beginning { .. }) {
            self.state = State::Ready;
            self.tell("initialized", json!({}));
            return (None, self.is_ready());
        }
        self.late = 0;
        let waiting = self.asked.remove(&id);
        let result = result.map(|it| self.mirror.inward(it));
        (waiting.map(|waiting| (waiting.asked, result)), false)
    }
}

/// What it must be able to count on from us, whatever the editor can.
fn demand(capabilities: &mut Value) {
    if !capabilities.is_object() {
        *capabilities = json!({});
    }
    let set = |value: &mut Value, path: [&str; 2], to: Value| {
        if let Some(group) = value.as_object_mut() {
            let group = group.entry(path[0]).or_insert_with(|| json!({}));
            if let Some(group) = group.as_object_mut() {
                group.insert(path[1].to_owned(), to);
            }
        }
    };
    let utf16 = json!(["utf-16"]);
    set(capabilities, ["general", "positionEncodings"], utf16);
    let told = json!({ "dynamicRegistration": true });
    set(capabilities, ["workspace", "didChangeWatchedFiles"], told);
    set(capabilities, ["workspace", "configuration"], json!(true));
    set(capabilities, ["window", "workDoneProgress"], json!(false));
    let pulled = json!({ "dynamicRegistration": false });
    set(capabilities, ["textDocument", "diagnostic"], pulled);
}

/// Its settings: imports as our programs write them, hints for the editors that show them.
fn settings(asked: &Value) -> Value {
    let preferences = json!({
        "importModuleSpecifier": "relative",
        "importModuleSpecifierEnding": "js",
        "quoteStyle": "double",
    });
    let on = json!({ "enabled": true });
    let hints = json!({
        "parameterNames": { "enabled": "literals" },
        "parameterTypes": on,
        "variableTypes": on,
        "functionLikeReturnTypes": on,
    });
    let typescript = json!({ "preferences": preferences, "inlayHints": hints });
    let items = asked.get("items").and_then(Value::as_array);
    let of = |item: &Value| match item.get("section").and_then(Value::as_str) {
        Some("typescript" | "js/ts") => typescript.clone(),
        _ => Value::Null,
    };
    Value::Array(items.into_iter().flatten().map(of).collect())
}
