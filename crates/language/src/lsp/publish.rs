// SPDX-License-Identifier: Apache-2.0
//! What the server tells an editor unasked: findings, that they are being made, and that those of a
//! closed document are withdrawn. Made elsewhere (`findings`), ordered and told here.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use lsp_server::{Message, Notification, Request, RequestId};
use lsp_types::*;
use serde_json::Value;

use super::answer::{Document, Server};
use super::findings::{Made, Order, Told};
use super::place;
use super::project::Project;
use crate::finding::{Finding, Severity};

/// What the editor is told of the first findings, which may take a while in a big workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    /// The editor doesn't show it, or there is nothing to show any more.
    #[default]
    Untold,
    Wanted,
    Begun,
}

/// The name of the progress.
const FINDINGS: &str = "aurae/findings";

impl Server {
    /// The order for the findings of every open document.
    pub(super) fn order(&self) -> Order {
        let snapshots = self.projects.iter();
        let snapshots: HashMap<&PathBuf, Arc<Project>> = snapshots
            .map(|(folder, project)| (folder, Arc::new(project.clone())))
            .collect();
        let mut open: Vec<(&Uri, &Document)> = self.documents.iter().collect();
        open.sort_by_key(|(_, document)| std::cmp::Reverse(document.changed));
        let documents = open.into_iter().filter_map(|(uri, document)| {
            let project = snapshots.get(&document.folder)?;
            Some((uri.clone(), document.path.clone(), Arc::clone(project)))
        });
        Order {
            version: self.version,
            documents: documents.collect(),
        }
    }

    /// Takes back what was found in documents that were closed: an editor keeps what it was told
    /// last.
    pub(super) fn forget_closed(&mut self) -> Vec<Message> {
        let closed = self.closed.drain(..);
        closed.map(|uri| published(&uri, Vec::new())).collect()
    }

    /// Says that the first findings are being made, to an editor that shows it.
    pub(super) fn begin(&mut self) -> Option<[Message; 2]> {
        if self.progress != Progress::Wanted || self.documents.is_empty() {
            return None;
        }
        self.progress = Progress::Begun;
        let create = Request::new(
            RequestId::from(FINDINGS.to_owned()),
            "window/workDoneProgress/create".to_owned(),
            serde_json::json!({ "token": FINDINGS }),
        );
        let begin = WorkDoneProgress::Begin(WorkDoneProgressBegin {
            title: "Looking for findings".to_owned(),
            ..WorkDoneProgressBegin::default()
        });
        Some([Message::Request(create), progress(begin)])
    }

    /// What the editor is told of a document, if it is of the newest text: what was found here, and
    /// in the protocol's words what TypeScript's service says, or what is never read.
    pub(super) fn publish(
        &mut self,
        version: u64,
        uri: Uri,
        findings: Vec<Finding>,
        its: Vec<Value>,
    ) -> Option<Message> {
        if version != self.version {
            return None;
        }
        let diagnostics = findings.iter().map(diagnostic);
        let ours = diagnostics.filter_map(|it| serde_json::to_value(it).ok());
        let all: Vec<Value> = ours.chain(its).collect();
        if let Some(document) = self.documents.get_mut(&uri) {
            document.found = Some((version, findings));
        }
        Some(published(&uri, all))
    }

    /// The same without TypeScript's service.
    pub(super) fn publish_alone(&mut self, version: u64, uri: Uri, made: Made) -> Option<Message> {
        let findings = made.claims.into_iter().map(|it| it.finding).collect();
        let unused = made.unused.into_iter();
        let unused = unused.filter_map(|it| serde_json::to_value(it).ok());
        self.publish(version, uri, findings, unused.collect())
    }

    /// What the editor is told of findings, if they are of the newest text.
    pub(super) fn told(&mut self, told: Told) -> Vec<Message> {
        match told {
            Told::Findings { version, uri, made } => {
                let told = self.publish_alone(version, uri, made);
                told.into_iter().collect()
            }
            Told::Done { version }
                if version == self.version && self.progress == Progress::Begun =>
            {
                self.progress = Progress::Untold;
                let end = WorkDoneProgressEnd { message: None };
                vec![progress(WorkDoneProgress::End(end))]
            }
            Told::Done { .. } => Vec::new(),
        }
    }
}

fn published(uri: &Uri, diagnostics: Vec<Value>) -> Message {
    let params = serde_json::json!({ "uri": uri.as_str(), "diagnostics": diagnostics });
    let method = "textDocument/publishDiagnostics".to_owned();
    Message::Notification(Notification { method, params })
}

fn progress(value: WorkDoneProgress) -> Message {
    let params = ProgressParams {
        token: NumberOrString::String(FINDINGS.to_owned()),
        value: ProgressParamsValue::WorkDone(value),
    };
    Message::Notification(Notification::new("$/progress".to_owned(), params))
}

/// A finding as editors show it.
pub(super) fn diagnostic(finding: &Finding) -> Diagnostic {
    let help = finding.help.as_deref();
    let message = match help {
        Some(help) => format!("{}\n{help}", finding.message),
        None => finding.message.clone(),
    };
    Diagnostic {
        range: place::range(&finding.source, finding.span),
        severity: Some(match finding.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(finding.code.to_string())),
        source: Some("aurae".to_owned()),
        message,
        ..Diagnostic::default()
    }
}
