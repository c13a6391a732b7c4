// SPDX-License-Identifier: Apache-2.0
//! What is known of the name under the cursor, and what the call around it takes.

use lsp_types::{
    Hover, HoverContents, MarkupContent, MarkupKind, ParameterInformation, ParameterLabel,
    SignatureHelp, SignatureInformation,
};

use super::complete::{docs, field_doc};
use super::cursor::{Named, call_at, named_at};
use super::project::Project;
use super::{place, repair};
use crate::check::{Facts, Field, FileId, Type, doc_of, symbol_type};
use crate::source::{Source, Span};

/// The name's type and documentation.
pub(super) fn hover(project: &Project, id: FileId, offset: u32) -> Option<Hover> {
    let readable = project.readable(id)?;
    let offset = readable.then(offset)?;
    let present = &project.entry(id)?.source;
    project.with(id, &readable.source, |module, _| {
        let (head, doc, span) = match named_at(module, offset)? {
            Named::Member(field, span) => {
                let head = described(module, &owner_and(&field), &field.ty);
                (head, field_doc(module, &field), span)
            }
            Named::Symbol(symbol, span) => {
                let name = module.symbols.scoping().symbol_name(symbol).to_owned();
                let ty = symbol_type(module, symbol);
                let doc = doc_of(module, symbol).map(|doc| doc.to_string());
                (described(module, &name, &ty), doc, span)
            }
            Named::Global(name, span) => global(module, name, span)?,
            Named::Module(specifier, span) => {
                let file = module.symbols.imports.get(&specifier)?;
                let entry = project.entry(*file)?;
                (format!("module {}", entry.path), None, span)
            }
        };
        Some(told(present, &head, doc.as_deref(), readable.now(span)?))
    })?
}

fn global(
    module: &Facts<'_, '_>,
    name: String,
    span: Span,
) -> Option<(String, Option<String>, Span)> {
    let table = &module.world.environment.table;
    if let Some(value) = table.values.get(name.as_str()) {
        let doc = value.doc.as_deref().map(str::to_owned);
        return Some((described(module, &name, &value.ty), doc, span));
    }
    let declared = table.types.get(name.as_str())?;
    let doc = declared.doc.as_deref().map(str::to_owned);
    Some((format!("type {name} = {}", declared.body), doc, span))
}

fn owner_and(field: &Field) -> String {
    match field.optional {
        true => format!("{}?", field.name),
        false => field.name.to_string(),
    }
}

/// A name with its type; of what can be called all signatures.
fn described(module: &Facts<'_, '_>, name: &str, ty: &Type) -> String {
    match module.world.signatures(ty) {
        Some(signatures) => {
            let lines = signatures.iter().map(|it| format!("{name}{it}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        None => format!("{name}: {ty}"),
    }
}

fn told(source: &Source, head: &str, doc: Option<&str>, span: Span) -> Hover {
    let doc = doc.map_or_else(String::new, |doc| format!("\n\n{doc}"));
    Hover {
        contents: HoverContents::Markup(MarkupContent {
            kind: MarkupKind::Markdown,
            value: format!("```typescript\n{head}\n```{doc}"),
        }),
        range: Some(place::range(source, span)),
    }
}

/// The signatures of the call around the cursor.
pub(super) fn signature(project: &Project, id: FileId, offset: u32) -> Option<SignatureHelp> {
    let entry = project.entry(id)?;
    let source = repair::at_cursor(&entry.source, offset);
    project.with(id, &source, |module, _| {
        let (signatures, name, active) = call_at(module, offset)?;
        let fits = |count: usize, rest: bool| rest || active < count.max(1);
        let chosen = signatures
            .iter()
            .position(|it| fits(it.params.len(), it.rest));
        let shown = signatures.iter().map(|signature| {
            let params = signature.params.iter().map(|param| {
                let mark = if param.optional { "?" } else { "" };
                format!("{}{mark}: {}", param.name, param.ty)
            });
            let params: Vec<String> = params.collect();
            SignatureInformation {
                label: format!("{name}({}): {}", params.join(", "), signature.returns),
                documentation: docs(signature.doc.as_deref()),
                parameters: Some(
                    params
                        .into_iter()
                        .map(|label| ParameterInformation {
                            label: ParameterLabel::Simple(label),
                            documentation: None,
                        })
                        .collect(),
                ),
                active_parameter: None,
            }
        });
        Some(SignatureHelp {
            signatures: shown.collect(),
            active_signature: u32::try_from(chosen.unwrap_or_default()).ok(),
            active_parameter: u32::try_from(active).ok(),
        })
    })?
}
