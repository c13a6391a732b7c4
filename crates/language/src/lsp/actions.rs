// SPDX-License-Identifier: Apache-2.0
//! What an editor's user can have done at a place: what mends a finding, an import of a name that
//! means nothing yet, and imports put in order. Called by the server (`answer`); where TypeScript's
//! service has answered, only what mends our findings.

use std::collections::HashMap;

use lsp_types::*;
use serde_json::Value;

use super::answer::{Failure, Server, json, params};
use super::publish::diagnostic;
use super::{imports, organize, place};
use crate::finding::Finding;
use crate::source::Span;

/// Whether the editor wants actions of a kind; one that names none wants all.
fn wants(given: &CodeActionParams, kind: &CodeActionKind) -> bool {
    let Some(only) = &given.context.only else {
        return true;
    };
    only.iter().any(|wanted| {
        let rest = kind.as_str().strip_prefix(wanted.as_str());
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('.') || wanted.as_str().is_empty()
        })
    })
}

#[allow(
    clippy::mutable_key_type,
    reason = "the protocol's own type of a workspace edit"
)]
fn action(title: String, kind: CodeActionKind, uri: &Uri, edits: Vec<TextEdit>) -> CodeAction {
    CodeAction {
        title,
        kind: Some(kind),
        edit: Some(WorkspaceEdit::new(HashMap::from([(uri.clone(), edits)]))),
        ..CodeAction::default()
    }
}

impl Server {
    pub(super) fn actions(&mut self, given: &CodeActionParams) -> Result<Value, Failure> {
        let mut actions = Vec::new();
        if wants(given, &CodeActionKind::QUICKFIX) {
            actions = self.repairs(given)?;
            actions.extend(self.imports(given)?);
        }
        if wants(given, &CodeActionKind::SOURCE_ORGANIZE_IMPORTS) {
            actions.extend(self.organize(given)?);
        }
        json(actions)
    }

    /// Without imports: TypeScript's service has answered, which knows those.
    pub(super) fn repairs_alone(&mut self, given: Value) -> Result<Value, Failure> {
        let given: CodeActionParams = params(given)?;
        match wants(&given, &CodeActionKind::QUICKFIX) {
            true => json(self.repairs(&given)?),
            false => json(Vec::<CodeAction>::new()),
        }
    }

    /// What mends our findings.
    fn repairs(&mut self, given: &CodeActionParams) -> Result<Vec<CodeAction>, Failure> {
        let uri = &given.text_document.uri;
        let mut actions = Vec::new();
        for finding in self.findings(uri)? {
            let range = place::range(&finding.source, finding.span);
            if range.end < given.range.start || given.range.end < range.start {
                continue;
            }
            for (index, fix) in finding.fixes.iter().enumerate() {
                let edits = fix.edits.iter().map(|edit| TextEdit {
                    range: place::range(&finding.source, edit.span),
                    new_text: edit.text.clone(),
                });
                actions.push(CodeAction {
                    diagnostics: Some(vec![diagnostic(&finding)]),
                    is_preferred: Some(index == 0),
                    ..action(
                        fix.title.clone(),
                        CodeActionKind::QUICKFIX,
                        uri,
                        edits.collect(),
                    )
                });
            }
        }
        Ok(actions)
    }

    /// Imports of names that mean nothing yet.
    fn imports(&mut self, given: &CodeActionParams) -> Result<Vec<CodeAction>, Failure> {
        let uri = &given.text_document.uri;
        let findings = self.findings(uri)?;
        let (project, id) = self.of(uri)?;
        let Some(source) = project.entry(id).map(|entry| entry.source.clone()) else {
            return Ok(Vec::new());
        };
        let offset = |at| place::offset(&source, at);
        let within = Span::new(offset(given.range.start), offset(given.range.end));
        let repairs = imports::repairs(project, id, within).into_iter();
        let actions = repairs.map(|(title, at, edit)| {
            let told = findings.iter().filter(|it| it.span == at).map(diagnostic);
            CodeAction {
                diagnostics: Some(told.collect()),
                ..action(title, CodeActionKind::QUICKFIX, uri, vec![edit])
            }
        });
        Ok(actions.collect())
    }

    /// Imports in order, where they aren't.
    fn organize(&mut self, given: &CodeActionParams) -> Result<Vec<CodeAction>, Failure> {
        let uri = &given.text_document.uri;
        let (project, id) = self.of(uri)?;
        let changes = organize::organize(project, id);
        let Some(entry) = project.entry(id).filter(|_| !changes.is_empty()) else {
            return Ok(Vec::new());
        };
        let edits = changes.into_iter().map(|(span, new_text)| TextEdit {
            range: place::range(&entry.source, span),
            new_text,
        });
        let title = "Organize imports".to_owned();
        let kind = CodeActionKind::SOURCE_ORGANIZE_IMPORTS;
        Ok(vec![action(title, kind, uri, edits.collect())])
    }

    /// What is wrong with a document as it is now: what was told of it, or what is found quickly.
    fn findings(&mut self, uri: &Uri) -> Result<Vec<Finding>, Failure> {
        let version = self.version;
        let known = self.documents.get(uri).and_then(|it| it.found.clone());
        if let Some((made, findings)) = known
            && made == version
        {
            return Ok(findings);
        }
        let path = self.documents.get(uri).map(|it| it.path.clone());
        let (project, _) = self.of(uri)?;
        let own = project.own_findings(&path.unwrap_or_default());
        Ok(own.unwrap_or_else(|syntax| syntax))
    }
}
