// SPDX-License-Identifier: Apache-2.0
//! The server's answers to what is nice to have: highlights, folding, selections, symbols of all
//! modules, definitions of types, implementations, and formatting of a range. Where TypeScript's
//! service is there, it answers all but the last.

use lsp_types::*;
use serde_json::Value;

use super::answer::{Failure, Server, json, location, params};
use super::{everywhere, place, ranges};

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
            "workspace/symbol" => {
                let wanted: WorkspaceSymbolParams = params(given)?;
                json(self.symbols(&wanted.query))
            }
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
