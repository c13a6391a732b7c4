// SPDX-License-Identifier: Apache-2.0
//! What stands at a place of a module, and what is asked for there. Shared by completion, hover,
//! signatures and navigation; says nothing to editors itself.

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::{NodeId, SymbolId};
use oxc::span::GetSpan;

use crate::check::{
    Called, Facts, Field, FileId, Lookup, Type, constructors, converter, declared_place, infer,
    signatures_of_call, symbol_type,
};
use crate::source::Span;

/// The innermost node around `offset`; a place at a node's end is still in it.
pub(super) fn node_at(module: &Facts<'_, '_>, offset: u32) -> Option<NodeId> {
    let nodes = module.tree.nodes.iter();
    let around = nodes.filter(|node| {
        let span = node.kind().span();
        span.start <= offset && offset <= span.end
    });
    // Of nodes of one width the later is the inner.
    around
        .map(|node| (node.kind().span().size(), node.id()))
        .reduce(|best, next| if next.0 <= best.0 { next } else { best })
        .map(|(_, id)| id)
}

/// A name in the text.
pub(super) enum Named {
    /// A variable, a function, a class, a type of this module, an import.
    Symbol(SymbolId, Span),
    /// One of the environment's globals, or of its types.
    Global(String, Span),
    /// A member: of a value, or in a literal where a type is asked for.
    Member(Field, Span),
    /// A module.
    Module(String, Span),
}

/// What the name at `offset` is.
pub(super) fn named_at(module: &Facts<'_, '_>, offset: u32) -> Option<Named> {
    let id = node_at(module, offset)?;
    let nodes = module.tree.nodes;
    let parent = nodes.parent_kind(id);
    let at = |span: oxc::span::Span| Span::new(span.start, span.end);
    match nodes.kind(id) {
        AstKind::IdentifierReference(name) => Some(match module.symbols.of(name) {
            Some(symbol) => Named::Symbol(symbol, at(name.span)),
            None => Named::Global(name.name.to_string(), at(name.span)),
        }),
        AstKind::BindingIdentifier(name) => {
            Some(Named::Symbol(name.symbol_id.get()?, at(name.span)))
        }
        AstKind::IdentifierName(name) => match parent {
            AstKind::StaticMemberExpression(member) => {
                let object = infer(module, &member.object).present();
                match module.world.field(&object, &name.name) {
                    Lookup::Found(field) => Some(Named::Member(field, at(name.span))),
                    _ => None,
                }
            }
            AstKind::ObjectProperty(_) => member_of_literal(module, id, name),
            AstKind::ImportSpecifier(specifier) => Some(Named::Symbol(
                specifier.local.symbol_id.get()?,
                at(name.span),
            )),
            _ => None,
        },
        AstKind::StringLiteral(text) => match parent {
            AstKind::ImportDeclaration(_)
            | AstKind::ExportFromDeclaration(_)
            | AstKind::ExportAllDeclaration(_) => {
                Some(Named::Module(text.value.to_string(), at(text.span)))
            }
            _ => None,
        },
        _ => None,
    }
}

fn member_of_literal(
    module: &Facts<'_, '_>,
    id: NodeId,
    name: &IdentifierName<'_>,
) -> Option<Named> {
    let nodes = module.tree.nodes;
    let property = nodes.parent_node(id);
    let object = nodes.parent_node(property.id());
    let wanted = wanted(module, object.id());
    let span = Span::new(name.span.start, name.span.end);
    if let Some(wanted) = wanted
        && let Lookup::Found(field) = module.world.field(&wanted.present(), &name.name)
    {
        return Some(Named::Member(field, span));
    }
    None
}

/// The type that is asked for in the place of an expression.
pub(super) fn wanted<'a>(module: &Facts<'a, '_>, id: NodeId) -> Option<Type> {
    let nodes = module.tree.nodes;
    let here = nodes.kind(id).span();
    let parent = nodes.parent_node(id);
    let convert =
        |annotation: &TSTypeAnnotation<'a>| converter(module).ty(&annotation.type_annotation);
    match parent.kind() {
        AstKind::ObjectProperty(property) if property.value.span() == here => {
            let object = nodes.parent_node(parent.id());
            let wanted = wanted(module, object.id())?.present();
            match module.world.field(&wanted, &property.key.static_name()?) {
                Lookup::Found(field) => Some(field.ty),
                _ => None,
            }
        }
        AstKind::ArrayExpression(_) => {
            let wanted = module
                .world
                .resolve(&wanted(module, parent.id())?.present());
            let elements = wanted
                .members()
                .iter()
                .filter_map(|ty| module.world.element(ty));
            Some(Type::union(elements))
        }
        AstKind::ParenthesizedExpression(_) | AstKind::ConditionalExpression(_) => {
            wanted(module, parent.id())
        }
        AstKind::CallExpression(call) => {
            let index = call.arguments.iter().position(|it| it.span() == here)?;
            let signatures = signatures_of_call(module, call)?;
            Some(Type::union(
                signatures.iter().filter_map(|it| it.param(index)),
            ))
        }
        AstKind::NewExpression(new) => {
            let index = new.arguments.iter().position(|it| it.span() == here)?;
            let (signatures, _) = constructors(module, new)?;
            Some(Type::union(
                signatures.iter().filter_map(|it| it.param(index)),
            ))
        }
        AstKind::VariableDeclarator(it) => it.type_annotation.as_deref().map(convert),
        AstKind::FormalParameter(it) => it.type_annotation.as_deref().map(convert),
        AstKind::PropertyDefinition(it) => it.type_annotation.as_deref().map(convert),
        AstKind::TSSatisfiesExpression(it) => Some(converter(module).ty(&it.type_annotation)),
        AstKind::AssignmentExpression(it) if it.right.span() == here => match &it.left {
            AssignmentTarget::StaticMemberExpression(member) => {
                let object = infer(module, &member.object).present();
                Some(module.world.member_type(&object, &member.property.name))
            }
            AssignmentTarget::AssignmentTargetIdentifier(name) => {
                Some(symbol_type(module, module.symbols.of(name)?))
            }
            _ => None,
        },
        AstKind::BinaryExpression(_) | AstKind::SwitchCase(_) => {
            compared(module, parent.id(), here)
        }
        AstKind::ReturnStatement(_) => {
            let mut functions = nodes.ancestor_kinds(id);
            let annotation = functions.find_map(|kind| match kind {
                AstKind::Function(it) => Some(it.return_type.as_deref()),
                AstKind::ArrowFunctionExpression(it) => Some(it.return_type.as_deref()),
                _ => None,
            })??;
            Some(convert(annotation).awaited())
        }
        _ => None,
    }
}

/// What a value is compared with: by `===`, or in a `switch`.
fn compared<'a>(module: &Facts<'a, '_>, id: NodeId, here: oxc::span::Span) -> Option<Type> {
    let nodes = module.tree.nodes;
    let other = match (nodes.kind(id), nodes.parent_kind(id)) {
        (AstKind::BinaryExpression(it), _) if it.left.span() == here => &it.right,
        (AstKind::BinaryExpression(it), _) => &it.left,
        (AstKind::SwitchCase(case), AstKind::SwitchStatement(switch))
            if case.test.as_ref().is_some_and(|it| it.span() == here) =>
        {
            &switch.discriminant
        }
        _ => return None,
    };
    // What is compared may be narrowed by just that.
    match declared_place(module, other) {
        Some((ty, _)) => Some(ty),
        None => Some(infer(module, other)),
    }
}

/// The call around `offset`, its arguments' place, and which argument is being written.
pub(super) fn call_at<'a>(
    module: &Facts<'a, '_>,
    offset: u32,
) -> Option<(Vec<std::sync::Arc<crate::check::Signature>>, String, usize)> {
    let id = node_at(module, offset)?;
    let nodes = module.tree.nodes;
    let text = module.tree.program.source_text;
    let own = std::iter::once(nodes.kind(id));
    for kind in own.chain(nodes.ancestor_kinds(id)) {
        let (called, callee, signatures) = match kind {
            AstKind::CallExpression(call) => (
                Called::of_call(call),
                call.callee.span(),
                signatures_of_call(module, call),
            ),
            AstKind::NewExpression(new) => (
                Called::of_new(new),
                new.callee.span(),
                constructors(module, new).map(|(signatures, _)| signatures),
            ),
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) => return None,
            _ => continue,
        };
        if offset <= callee.end || offset > called.whole.end {
            continue;
        }
        let before = called.arguments.iter().filter(|it| it.span().end < offset);
        let name = text.get(callee.start as usize..callee.end as usize)?;
        let name = name.rsplit('.').next().unwrap_or(name).to_owned();
        return Some((signatures?, name, before.count()));
    }
    None
}

/// Where a symbol is declared: in this module, or in the one it is imported from.
pub(super) fn declared(module: &Facts<'_, '_>, symbol: SymbolId) -> (FileId, Span) {
    if let Some((file, name)) = module.symbols.imported(symbol) {
        let found = name.and_then(|name| declared_in(module, file, &name));
        return found.unwrap_or((file, Span::default()));
    }
    let span = module.symbols.scoping().symbol_span(symbol);
    (module.file, Span::new(span.start, span.end))
}

fn declared_in(module: &Facts<'_, '_>, file: FileId, name: &str) -> Option<(FileId, Span)> {
    let exports = module.world.exports(file)?;
    if let Some(value) = exports.values.get(name) {
        return Some((value.file, value.at));
    }
    match exports.exported_types.get(name)? {
        Type::Named(declared, _) => {
            let declaration = module.world.type_declaration(declared)?;
            Some((declaration.file, declaration.at))
        }
        _ => None,
    }
}
