// SPDX-License-Identifier: Apache-2.0
//! Names that mean nothing: globals that aren't there, and types that a namespace of the API
//! hasn't. Members are `walk`'s.

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;

use super::convert::span;
use super::facts::Facts;
use super::report::Report;
use super::words::{elsewhere, not_offered};
use crate::schema::nearest;

/// Whether a name is one of the environment's globals here.
pub(crate) fn is_global(facts: &Facts<'_, '_>, name: &IdentifierReference<'_>) -> bool {
    facts.symbols.of(name).is_none() && facts.world.environment.has(&name.name)
}

/// `runtime.CelSpec`: a type that the namespace hasn't.
pub(super) fn check_type_name<'a>(
    facts: &Facts<'a, '_>,
    name: &TSQualifiedName<'a>,
    out: &mut Vec<Report>,
) {
    let TSTypeName::IdentifierReference(space) = &name.left else {
        return;
    };
    if facts.symbols.of(space).is_some() {
        return;
    }
    let types = &facts.world.environment.table.types;
    let mut spaces: Vec<&str> = types
        .keys()
        .filter_map(|it| Some(it.split_once('.')?.0))
        .collect();
    spaces.sort_unstable();
    spaces.dedup();
    if !spaces.contains(&space.name.as_str()) {
        // `Intl`, `JSON`, what `declare global` adds: only a slip of the pen is certain.
        let known = facts.world.environment.has(&space.name);
        if known || nearest(&space.name, spaces.iter().copied()).is_none() {
            return;
        }
        let at = span(space.span);
        let message = format!("there is no `{}` with types", space.name);
        let report = Report::new("unknown-name", at, message);
        out.push(report.suggesting(&space.name, spaces, at, false));
        return;
    }
    let whole = format!("{}.{}", space.name, name.right.name);
    if types.contains_key(whole.as_str()) {
        return;
    }
    let at = span(name.right.span);
    let within = types.keys().filter_map(|it| {
        let (of, name) = it.split_once('.')?;
        (of == space.name).then_some(name)
    });
    let report = Report::new("unknown-name", at, format!("there is no type `{whole}`"));
    out.push(report.suggesting(&name.right.name, within, at, false));
}

/// A global that isn't there.
pub(super) fn check_name<'a>(
    facts: &Facts<'a, '_>,
    name: &IdentifierReference<'a>,
    id: NodeId,
    out: &mut Vec<Report>,
) {
    let unresolved = facts.symbols.scoping().root_unresolved_references();
    let text = name.name.as_str();
    let Some(reference) = name.reference_id.get() else {
        return;
    };
    if !unresolved.contains_key(&name.name) || facts.world.environment.has(text) {
        return;
    }
    let reference = facts.symbols.scoping().get_reference(reference);
    if reference.symbol_id().is_some() || !reference.is_value() || reference.is_type() {
        return;
    }
    if matches!(facts.tree.nodes.parent_kind(id), AstKind::UnaryExpression(it)
        if it.operator == oxc::syntax::operator::UnaryOperator::Typeof)
    {
        return;
    }
    if is_in_parts(facts, id) {
        return;
    }
    let at = span(name.span);
    if let Some(what) = not_offered(text) {
        let message = format!("`{text}` isn't offered yet: {what}");
        out.push(Report::new("not-offered", at, message));
        return;
    }
    let scoping = facts.symbols.scoping();
    let node = facts.tree.nodes.get_node(id);
    let mut names: Vec<&str> = Vec::new();
    for scope in scoping.scope_ancestors(node.scope_id()) {
        let bindings = scoping.get_bindings(scope);
        names.extend(bindings.keys().map(|name| name.as_str()));
    }
    let globals = facts.world.environment.table.values.keys();
    names.extend(globals.map(AsRef::as_ref));
    let report = Report::new("unknown-name", at, format!("there is no `{text}`"));
    out.push(match elsewhere(text) {
        Some(instead) => report.help(instead),
        None => report.suggesting(text, names, at, false),
    });
}

/// Whether a node is in a namespace or an enum that is declared in several parts: what the
/// other parts export is known by its bare name.
pub(super) fn is_in_parts(facts: &Facts<'_, '_>, id: NodeId) -> bool {
    let mut around = facts.tree.nodes.ancestor_kinds(id);
    around.any(|kind| {
        let name = match kind {
            AstKind::TSNamespaceDeclaration(it) => it.id.symbol_id.get(),
            AstKind::TSEnumDeclaration(it) => it.id.symbol_id.get(),
            _ => None,
        };
        let scoping = facts.symbols.scoping();
        name.is_some_and(|it| !scoping.symbol_redeclarations(it).is_empty())
    })
}
