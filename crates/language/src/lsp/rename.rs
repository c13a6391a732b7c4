// SPDX-License-Identifier: Apache-2.0
//! Another name for something: where what is written, or why it is refused. Nothing is changed that
//! could mean something else afterwards: the new name must be free wherever the old one is used,
//! and what the changed program says wrong it must have said wrong before.

use std::collections::BTreeMap;

use oxc::ast::AstKind;
use oxc::span::GetSpan;

use super::members;
use super::navigate::{At, Form, Owner, Use, Uses, of_alias, uses};
use super::project::{Entered, Project};
use crate::check::{ENVIRONMENT, Facts, FileId, LIBRARY};
use crate::finding::Finding;
use crate::source::Span;

/// What comes in the place of a use, by file.
pub(super) type Edits = BTreeMap<FileId, Vec<(Span, String)>>;

/// The uses of the name at `offset`, if it may be changed.
///
/// # Errors
/// Why it may not.
pub(super) fn prepare(project: &mut Project, id: FileId, offset: u32) -> Result<Vec<Use>, String> {
    project.enter_all();
    refuse_broken(project.entry(id).filter(|entry| !entry.is_sound()))?;
    let uses = named(project, id, offset)?;
    refuse_broken(broken(project, &uses.all))?;
    if let Owner::Member((ENVIRONMENT | LIBRARY, _)) = uses.owner {
        return Err("the API declares it, so it can't be renamed here".to_owned());
    }
    if let Some((at, why)) = uses.obstacle {
        return Err(refusal(project, at, why));
    }
    Ok(uses.all)
}

/// The uses of the name at `offset`: of an import's own name for what it takes, those alone.
fn named(project: &mut Project, id: FileId, offset: u32) -> Result<Uses, &'static str> {
    match of_alias(project, id, offset) {
        Some(found) => Ok(found),
        None => uses(project, id, offset),
    }
}

/// A module whose present text doesn't parse and may have the name in it.
fn broken<'p>(project: &'p Project, uses: &[Use]) -> Option<&'p Entered> {
    let first = uses.first()?;
    let text = project.entry(first.file)?.source.text();
    let name = text.get(first.span.start as usize..first.span.end as usize)?;
    let mut entries = project.entries().map(|(_, entry)| entry);
    entries.find(|entry| !entry.is_sound() && entry.source.text().contains(name))
}

fn refuse_broken(broken: Option<&Entered>) -> Result<(), String> {
    match broken {
        Some(entry) => Err(format!(
            "mend the syntax of {} first: where the name is used there isn't known",
            entry.path
        )),
        None => Ok(()),
    }
}

fn refusal(project: &Project, at: At, why: &str) -> String {
    format!(
        "it can't be renamed: {why} ({})",
        members::place(project, at)
    )
}

/// All that is to be written so that the name at `offset` is `new`.
///
/// # Errors
/// Why it can't be.
pub(super) fn rename(
    project: &mut Project,
    id: FileId,
    offset: u32,
    new: &str,
) -> Result<Edits, String> {
    let all = prepare(project, id, offset)?;
    let found = named(project, id, offset)?;
    match found.owner {
        Owner::Member(member) if members::is_taken(project, member, new) => {
            return Err(format!("there is a member `{new}` beside it already"));
        }
        Owner::Member(_) => {}
        Owner::Symbol => {
            if let Some(at) = all.iter().find_map(|it| taken_at(project, *it, new)) {
                return Err(refusal(
                    project,
                    at,
                    "the new name means something else here",
                ));
            }
        }
    }
    let mut edits = Edits::new();
    for it in all {
        let Some(entry) = project.entry(it.file) else {
            continue;
        };
        let span = (it.span.start as usize)..(it.span.end as usize);
        let old = entry.source.text().get(span).unwrap_or_default();
        let text = match it.form {
            Form::Plain => new.to_owned(),
            Form::Value => format!("{old}: {new}"),
            Form::Key => format!("{new}: {old}"),
        };
        edits.entry(it.file).or_default().push((it.span, text));
    }
    match worse(project, &edits) {
        Some(finding) => Err(format!(
            "it can't be renamed: {} would say \"{}\"",
            finding.source.name(),
            finding.message
        )),
        None => Ok(edits),
    }
}

/// Where the new name of a symbol would be another's: one that is seen from a use of the old name,
/// or one that is used where the old name is seen.
fn taken_at(project: &Project, used: Use, new: &str) -> Option<At> {
    let source = project.entry(used.file)?.source.clone();
    project.with(used.file, &source, |module, _| {
        let nodes = module.tree.nodes;
        let scoping = module.symbols.scoping();
        let here = nodes.iter().find(|node| {
            let span = node.kind().span();
            (span.start, span.end) == (used.span.start, used.span.end)
        })?;
        let scope = here.scope_id();
        if scoping.find_binding(scope, new.into()).is_some() {
            return Some((used.file, used.span));
        }
        captured(module, used, new)
    })?
}

/// A use of another `new` below the scope in which the symbol is declared there.
fn captured(module: &Facts<'_, '_>, used: Use, new: &str) -> Option<At> {
    let nodes = module.tree.nodes;
    let scoping = module.symbols.scoping();
    let symbol = scoping.symbol_ids().find(|symbol| {
        let span = scoping.symbol_span(*symbol);
        (span.start, span.end) == (used.span.start, used.span.end)
    })?;
    let declared_in = scoping.symbol_scope_id(symbol);
    nodes.iter().find_map(|node| {
        let AstKind::IdentifierReference(it) = node.kind() else {
            return None;
        };
        let mut scopes = scoping.scope_ancestors(node.scope_id());
        let below = it.name == new && scopes.any(|scope| scope == declared_in);
        below.then(|| (module.file, Span::new(it.span.start, it.span.end)))
    })
}

/// The first finding that is there only after the edits.
fn worse(project: &Project, edits: &Edits) -> Option<Finding> {
    let mut after = project.clone();
    for (file, edits) in edits {
        let entry = project.entry(*file)?;
        let mut text = entry.source.text().to_owned();
        for (span, new) in edits.iter().rev() {
            text.replace_range(span.start as usize..span.end as usize, new);
        }
        let path = entry.path.clone();
        after.set(&path, Some(text));
    }
    let changed: Vec<FileId> = edits.keys().copied().collect();
    project.reached_by(&changed).into_iter().find_map(|file| {
        let path = &project.entry(file)?.path;
        let findings = |project: &Project| {
            let findings = project.own_findings(path);
            findings.unwrap_or_else(|syntax| syntax)
        };
        let mut new = findings(&after);
        let known = findings(project).len();
        match new.len() > known {
            true => Some(new.swap_remove(known)),
            false => None,
        }
    })
}
