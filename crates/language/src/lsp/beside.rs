// SPDX-License-Identifier: Apache-2.0
//! The loop's part in TypeScript's service (`typescript`): what the editor asks goes there or here,
//! what comes back late or not at all is answered here, and findings of both become one list.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use lsp_server::{Message, Notification, Request, Response};
use serde_json::Value;

use super::answer::{Failure, Server};
use super::findings::Told;
use super::typescript::{Answered, Asked, Companion, merge};
use super::{Loop, place, wire};
use crate::tsc;

/// Questions about which its word is the last: where it finds nothing there is nothing to show.
const ITS_WORD: [&str; 4] = [
    "callHierarchy/incomingCalls",
    "callHierarchy/outgoingCalls",
    "textDocument/inlayHint",
    "textDocument/prepareCallHierarchy",
];

impl<W: Write> Loop<'_, W> {
    /// Starts it where it is there; the editor has initialized us with these words.
    pub(super) fn begin_beside(&mut self, hello: &Value) {
        if !self.setup.typescript || self.typescript.is_some() {
            return;
        }
        let capabilities = hello.get("capabilities").cloned().unwrap_or_default();
        let folder = folder_of(hello);
        let Ok(compiler) = tsc::find(&folder) else {
            return;
        };
        let cache = self.setup.cache.as_deref();
        let begun = Companion::new(compiler, self.sender.clone(), capabilities, cache);
        self.typescript = begun.ok();
        self.server.extended = self.typescript.is_some();
    }

    /// Passes on what the editor says, after we have heard it.
    pub(super) fn hear_beside(&mut self, told: &Notification) {
        let Some(typescript) = &mut self.typescript else {
            return;
        };
        let uri = told.params.pointer("/textDocument/uri");
        let uri = uri.and_then(Value::as_str).and_then(|uri| uri.parse().ok());
        match told.method.as_str() {
            "textDocument/didOpen" => {
                if let Some((uri, document)) =
                    uri.and_then(|uri| self.server.documents.get_key_value(&uri))
                {
                    let text = document.source.text();
                    typescript.open(&document.folder, uri, &document.path, text);
                }
            }
            "textDocument/didChange" => typescript.hear(told),
            "textDocument/didClose" => {
                typescript.hear(told);
                if let Some(uri) = uri {
                    self.found.forget(&uri);
                }
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => typescript.reread(),
            _ => {}
        }
    }

    /// Gives it the editor's question; given back where it is ours.
    pub(super) fn ask_beside(&mut self, mut request: Request) -> Option<Request> {
        let Some(typescript) = &mut self.typescript else {
            return Some(request);
        };
        if request.method == "textDocument/codeAction" {
            request.params = self.found.in_place(request.params);
        }
        typescript.forward(request)
    }

    /// Something that it said.
    pub(super) fn said_beside(&mut self, generation: u32, said: Option<Message>) -> io::Result<()> {
        let Some(typescript) = &mut self.typescript else {
            return Ok(());
        };
        let (answered, begun) = typescript.said(generation, said);
        if begun {
            for (uri, document) in &self.server.documents {
                let text = document.source.text();
                typescript.open(&document.folder, uri, &document.path, text);
            }
            // What was found without it is looked at again.
            self.due = Some(Instant::now());
        }
        answered.map_or(Ok(()), |answered| self.finish(answered))
    }

    /// Answers what it hasn't answered in time.
    pub(super) fn overdue(&mut self) -> io::Result<()> {
        let Some(typescript) = &mut self.typescript else {
            return Ok(());
        };
        if typescript.due().is_none_or(|due| due > Instant::now()) {
            return Ok(());
        }
        for late in typescript.overdue() {
            self.finish(late)?;
        }
        Ok(())
    }

    fn finish(&mut self, (asked, result): Answered) -> io::Result<()> {
        match asked {
            Asked::Request(request) => {
                let id = request.id.clone();
                let value = match (request.method.as_str(), result) {
                    ("textDocument/codeAction", Some(its)) => {
                        let ours = self.mended(request).unwrap_or_default();
                        merge::actions(ours, its)
                    }
                    (method, Some(value)) if ITS_WORD.contains(&method) => value,
                    (_, result) => match merge::usable(result) {
                        Some(value) => value,
                        None => return self.answer_ourselves(request),
                    },
                };
                wire::write(self.output, Message::Response(Response::new_ok(id, value)))
            }
            Asked::Findings { version, uri, made } => {
                let told = match &result {
                    Some(answer) if version == self.server.version => {
                        let (findings, its) = self.found.merge(&uri, made.claims, answer);
                        self.server.publish(version, uri, findings, its)
                    }
                    _ => self.server.publish_alone(version, uri, made),
                };
                told.map_or(Ok(()), |message| wire::write(self.output, message))
            }
        }
    }

    /// Tells the editor what was found, after its service has been asked too.
    pub(super) fn publish(&mut self, told: Told) -> io::Result<()> {
        let told = match (told, &mut self.typescript) {
            (Told::Findings { version, uri, made }, Some(typescript))
                if version == self.server.version =>
            {
                match typescript.findings(version, uri, made) {
                    Some((version, uri, made)) => Told::Findings { version, uri, made },
                    None => return Ok(()),
                }
            }
            (told, _) => told,
        };
        for message in self.server.told(told) {
            wire::write(self.output, message)?;
        }
        Ok(())
    }

    /// Answers without it.
    pub(super) fn answer_ourselves(&mut self, request: Request) -> io::Result<()> {
        let id = request.id.clone();
        let response = match request.method.as_str() {
            "completionItem/resolve" => Response::new_ok(id, request.params),
            _ => match self.ours(request) {
                Ok(value) => Response::new_ok(id, value),
                Err(failure) => failure.response(id),
            },
        };
        wire::write(self.output, Message::Response(response))
    }

    fn ours(&mut self, request: Request) -> Result<Value, Failure> {
        self.guarded(|server| server.answer(request))
    }

    /// Our actions where its own are known: what mends our findings, and no imports.
    fn mended(&mut self, request: Request) -> Result<Value, Failure> {
        self.guarded(|server| server.repairs_alone(request.params))
    }

    fn guarded(
        &mut self,
        answer: impl FnOnce(&mut Server) -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        let server = &mut self.server;
        let answered = catch_unwind(AssertUnwindSafe(|| answer(server)));
        let broken = |_| Failure::Internal("this question can't be answered".to_owned());
        answered.map_err(broken)?
    }
}

/// Where the editor works.
fn folder_of(hello: &Value) -> PathBuf {
    let uris = ["/workspaceFolders/0/uri", "/rootUri"];
    let mut uris = uris.iter().filter_map(|at| hello.pointer(at)?.as_str());
    let folder = uris.find_map(|uri| place::path(&uri.parse().ok()?));
    folder.unwrap_or_else(|| Path::new("/").to_owned())
}
