// SPDX-License-Identifier: Apache-2.0
//! The server's answers to what is nice to have: highlights, folding, selections, symbols of all
//! modules, definitions of types, implementations, who calls what, hints between the words,
//! imports that follow a file's new name, and formatting of a range. Where TypeScript's service is
//! there, it answers all but the last.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use lsp_types::*;
use serde_json::Value;

use super::answer::{Failure, Server, json, location, params, workspace_edit};
use super::calls::{self, Callable};
use super::hints::{self, Hint};
use super::project::Project;
use super::{declared, everywhere, moved, place, ranges};
use crate::check::FileId;
use crate::source::Span;

impl Server {
    pub(super) fn answer_more(&mut self, method: &str, given: Value) -> Result<Value, Failure> {
        match method {
            "textDocument/documentHighlight" => {
                let at: DocumentHighlightParams = params(given)?;
                let (project, id, offset) = self.at(&at.text_document_position_params)?;
                let found = everywhere::highlights(project, id, offset).unwrap_or_default();
                let source = project.entry(id).map(|entry| entry.source.clone());
                let shown = found.into_iter().filter_map(|span| {
                    let range = place::range(source.as_ref()?, span);
                    Some(DocumentHighlight { range, kind: None })
                });
                json(shown.collect::<Vec<_>>())
            }
            "textDocument/foldingRange" => {
                let of: FoldingRangeParams = params(given)?;
                let (project, id) = self.of(&of.text_document.uri)?;
                json(ranges::folds(project, id))
            }
            "textDocument/selectionRange" => {
                let of: SelectionRangeParams = params(given)?;
                let (project, id) = self.of(&of.text_document.uri)?;
                json(ranges::selections(project, id, &of.positions))
            }
            "textDocument/typeDefinition" => {
                let at: GotoDefinitionParams = params(given)?;
                let cache = self.cache();
                let (project, id, offset) = self.at(&at.text_document_position_params)?;
                let found = everywhere::type_definition(project, id, offset);
                json(found.and_then(|(file, at)| location(project, file, at, cache.as_deref())))
            }
            "textDocument/implementation" => {
                let at: GotoDefinitionParams = params(given)?;
                let (project, id, offset) = self.at(&at.text_document_position_params)?;
                let found = everywhere::implementations(project, id, offset).unwrap_or_default();
                let found = found.into_iter();
                let places = found.filter_map(|(file, at)| location(project, file, at, None));
                json(places.collect::<Vec<_>>())
            }
            "textDocument/prepareCallHierarchy" => {
                let at: CallHierarchyPrepareParams = params(given)?;
                let cache = self.cache();
                let (project, id, offset) = self.at(&at.text_document_position_params)?;
                let found = calls::prepare(project, id, offset);
                let found = found.and_then(|it| item(project, it, cache.as_deref()));
                json(found.map(|it| vec![it]))
            }
            "callHierarchy/incomingCalls" => {
                let of: CallHierarchyIncomingCallsParams = params(given)?;
                json(self.incoming(&of.item))
            }
            "callHierarchy/outgoingCalls" => {
                let of: CallHierarchyOutgoingCallsParams = params(given)?;
                json(self.outgoing(&of.item))
            }
            "textDocument/inlayHint" => {
                let of: InlayHintParams = params(given)?;
                let (project, id) = self.of(&of.text_document.uri)?;
                json(inlay_hints(project, id, of.range))
            }
            "workspace/symbol" => {
                let wanted: WorkspaceSymbolParams = params(given)?;
                json(self.symbols(&wanted.query))
            }
            "workspace/willRenameFiles" => self.follow(params(given)?),
            "textDocument/rangeFormatting" => self.format_range(&params(given)?),
            other => Err(Failure::Unknown(other.to_owned())),
        }
    }

    #[allow(deprecated, reason = "the field must be given, and is left empty")]
    fn symbols(&mut self, query: &str) -> Vec<SymbolInformation> {
        let mut shown = Vec::new();
        for project in self.projects.values_mut() {
            for (file, symbol) in everywhere::symbols(project, query) {
                let entry = project.entry(file);
                let uri = entry.and_then(|it| place::uri(&project.file(&it.path)));
                shown.extend(uri.map(|uri| SymbolInformation {
                    name: symbol.name,
                    kind: symbol.kind,
                    tags: None,
                    deprecated: None,
                    location: Location::new(uri, symbol.selection_range),
                    container_name: None,
                }));
            }
        }
        shown
    }

    /// What is to be written before files are renamed: each belongs to one project, and only within
    /// that one imports can follow it.
    #[allow(
        clippy::mutable_key_type,
        reason = "the protocol's own type of a workspace edit"
    )]
    fn follow(&mut self, given: RenameFilesParams) -> Result<Value, Failure> {
        let mut moves: HashMap<PathBuf, HashMap<String, String>> = HashMap::new();
        for file in given.files {
            let path = |uri: &str| place::path(&uri.parse().ok()?);
            let (Some(old), Some(new)) = (path(&file.old_uri), path(&file.new_uri)) else {
                continue;
            };
            let Some((folder, from)) = self.project_of(&old) else {
                continue;
            };
            if let Some(to) = below(&folder, &new) {
                moves.entry(folder).or_default().insert(from, to);
            }
        }
        let mut edits: Option<WorkspaceEdit> = None;
        for (folder, moves) in moves {
            let Some(project) = self.projects.get_mut(&folder) else {
                continue;
            };
            let found = moved::follow(project, &moves);
            let found = workspace_edit(project, found);
            let changes = edits
                .get_or_insert_default()
                .changes
                .get_or_insert_default();
            changes.extend(found.changes.unwrap_or_default());
        }
        json(edits)
    }

    /// The declaration that an item of a call hierarchy is; of a module no place.
    fn declared(&mut self, item: &CallHierarchyItem) -> Option<(PathBuf, FileId, Option<Span>)> {
        let path = place::path(&item.uri)?;
        let start = item.selection_range.start;
        if let Some(file) = declared::is_of(&path) {
            // The API is the same in all projects: the one that the question is about is named.
            let folder = item
                .data
                .as_ref()
                .and_then(Value::as_str)
                .map(PathBuf::from)?;
            let source = declared::source(&self.projects.get(&folder)?.world.environment, file);
            let range = item.selection_range;
            let offset = |at| place::offset(&source, at);
            return Some((
                folder,
                file,
                Some(Span::new(offset(range.start), offset(range.end))),
            ));
        }
        let (folder, path) = self.project_of(&path)?;
        let project = self.projects.get_mut(&folder)?;
        let file = project.enter(&path);
        let source = &project.entry(file)?.source;
        let at = place::offset(source, start);
        let end = place::offset(source, item.selection_range.end);
        let place = (item.kind != SymbolKind::MODULE).then(|| Span::new(at, end));
        Some((folder, file, place))
    }

    fn incoming(&mut self, of: &CallHierarchyItem) -> Option<Vec<CallHierarchyIncomingCall>> {
        let cache = self.cache();
        let (folder, file, place) = self.declared(of)?;
        let project = self.projects.get_mut(&folder)?;
        let found = calls::incoming(project, (file, place?))?;
        let calls = found.into_iter().filter_map(|(from, places)| {
            let from_ranges = ranges_of(project, from.file, places)?;
            let from = item(project, from, cache.as_deref())?;
            Some(CallHierarchyIncomingCall { from, from_ranges })
        });
        Some(calls.collect())
    }

    fn outgoing(&mut self, of: &CallHierarchyItem) -> Option<Vec<CallHierarchyOutgoingCall>> {
        let cache = self.cache();
        let (folder, file, place) = self.declared(of)?;
        let project = self.projects.get_mut(&folder)?;
        let found = calls::outgoing(project, file, place)?;
        let calls = found.into_iter().filter_map(|(to, places)| {
            let from_ranges = ranges_of(project, file, places)?;
            let to = item(project, to, cache.as_deref())?;
            Some(CallHierarchyOutgoingCall { to, from_ranges })
        });
        Some(calls.collect())
    }

    fn format_range(&mut self, given: &DocumentRangeFormattingParams) -> Result<Value, Failure> {
        let (project, id) = self.of(&given.text_document.uri)?;
        let Some(entry) = project.entry(id) else {
            return Ok(Value::Null);
        };
        let (start, end) = (given.range.start, given.range.end);
        // A range that ends before a line's first character doesn't hold that line.
        let whole = end.character == 0 && end.line > start.line;
        let last = end.line.saturating_sub(u32::from(whole));
        let changed = ranges::format_lines(&entry.source, start.line as usize, last as usize);
        let line = |line: usize| Position::new(u32::try_from(line).unwrap_or(u32::MAX), 0);
        let edits = changed.into_iter().map(|(start, end, new_text)| TextEdit {
            range: Range::new(line(start), line(end)),
            new_text,
        });
        json(edits.collect::<Vec<_>>())
    }
}

/// A path relative to a project's folder, which has no links in it.
fn below(folder: &Path, path: &Path) -> Option<String> {
    let real = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let relative = path.strip_prefix(folder).map(Path::to_owned).ok();
    let relative = relative.or_else(|| Some(real()?.strip_prefix(folder).ok()?.to_owned()))?;
    let mut parts = relative.components();
    let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
    relative.to_str().filter(|_| is_below).map(str::to_owned)
}

fn ranges_of(project: &Project, file: FileId, places: Vec<Span>) -> Option<Vec<Range>> {
    let source = &project.entry(file)?.source;
    let places = places.into_iter();
    Some(places.map(|it| place::range(source, it)).collect())
}

/// What calls and is called, as the protocol has it.
fn item(project: &Project, of: Callable, cache: Option<&Path>) -> Option<CallHierarchyItem> {
    let whole = location(project, of.file, of.whole, cache)?;
    let own = location(project, of.file, of.own, cache)?;
    let is_program = project.entry(of.file).is_some();
    Some(CallHierarchyItem {
        name: of.name,
        kind: of.kind,
        tags: None,
        detail: project.entry(of.file).map(|entry| entry.path.clone()),
        uri: whole.uri,
        range: whole.range,
        selection_range: own.range,
        data: (!is_program).then(|| project.root.path().to_string_lossy().into()),
    })
}

fn inlay_hints(project: &Project, id: FileId, range: Range) -> Vec<InlayHint> {
    let Some(entry) = project.entry(id) else {
        return Vec::new();
    };
    let offset = |at| place::offset(&entry.source, at);
    let within = Span::new(offset(range.start), offset(range.end));
    let hints = hints::hints(project, id, within).into_iter().map(|hint| {
        let (at, label, kind) = match hint {
            Hint::Parameter(at, label) => (at, label, InlayHintKind::PARAMETER),
            Hint::Type(at, label) => (at, label, InlayHintKind::TYPE),
        };
        InlayHint {
            position: place::position(&entry.source, at),
            label: InlayHintLabel::String(label),
            padding_right: Some(kind == InlayHintKind::PARAMETER),
            kind: Some(kind),
            text_edits: None,
            tooltip: None,
            padding_left: None,
            data: None,
        }
    });
    hints.collect()
}
