// SPDX-License-Identifier: Apache-2.0
//! Members of what a program declares itself: fields and methods of interfaces, object types and
//! classes. Which one a name in the text is, and where it is used below the root. A name whose
//! owner isn't known may be any member of that name: it is told apart, so that nothing is renamed
//! then.

use std::collections::BTreeSet;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;
use oxc::span::GetSpan;

use super::cursor::{node_at, wanted};
use super::navigate::{At, Form, Use};
use super::project::Project;
use crate::check::{
    Facts, FileId, Lookup, Type, constructors, converter, infer, signatures_of_call, symbol_type,
};
use crate::source::Span;

/// Which members a name may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Those declared there; several where its owner is one of several types.
    These(Vec<At>),
    /// One that isn't known.
    Unknown,
    /// It is no member's name.
    None,
}

/// All uses of a member that are known, and what stands against changing its name.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) uses: BTreeSet<Use>,
    /// Where and why.
    pub(super) obstacle: Option<(At, &'static str)>,
}

const UNKNOWN: &str = "this may be the same member: what it belongs to isn't known";
const SHARED: &str = "here it may be a member of another type, too";
pub(super) const PARAMETER: &str = "it is a parameter and a field at once";
/// An import of a whole module that is handed on.
pub(super) const WHOLE: &str = "here all that the module exports is handed on";
const INHERITED: &str = "a type that extends or implements another has it, too";
const BY_TEXT: &str = "here it is named by a string";

/// The member whose name stands at `offset`: its name, and which it may be.
pub(super) fn at(module: &Facts<'_, '_>, offset: u32) -> Option<(String, Which)> {
    let id = node_at(module, offset)?;
    let name = match module.tree.nodes.kind(id) {
        AstKind::IdentifierName(name) => name.name.as_str(),
        AstKind::StringLiteral(text) => text.value.as_str(),
        _ => return None,
    };
    match which(module, id, name) {
        Which::None => None,
        which => Some((name.to_owned(), which)),
    }
}

/// All uses of the member `name` that is declared at `member`.
pub(super) fn uses(project: &Project, member: At, name: &str) -> Found {
    let mut found = Found::default();
    for (id, entry) in project.entries() {
        if entry.source.text().contains(name) {
            project.with(id, &entry.source, |module, _| {
                in_module(module, member, name, &mut found);
            });
        }
    }
    found
}

fn in_module(module: &Facts<'_, '_>, member: At, name: &str, found: &mut Found) {
    for node in module.tree.nodes {
        let kind = node.kind();
        let here = (module.file, span(kind.span()));
        let against = match kind {
            AstKind::IdentifierName(it) if it.name == name => {
                is_member(module, node.id(), name, member, found)
            }
            AstKind::StringLiteral(it) if it.value == name => {
                match names_by_text(module, node.id()) {
                    true => Some(BY_TEXT),
                    false => is_member(module, node.id(), name, member, found),
                }
            }
            AstKind::AssignmentTargetPropertyIdentifier(it) if it.binding.name == name => {
                Some(UNKNOWN)
            }
            AstKind::FormalParameter(it)
                if it.has_modifier() && span(it.pattern.span()) == member.1 =>
            {
                (module.file == member.0).then_some(PARAMETER)
            }
            AstKind::Class(class) => {
                let bases = bases_of_class(module, class);
                let keys = class
                    .body
                    .body
                    .iter()
                    .filter_map(ClassElement::property_key);
                inherits(module, &bases, keys, name, member)
            }
            AstKind::TSInterfaceDeclaration(it) => {
                let bases = it.extends.iter().map(|base| {
                    let arguments = arguments(module, base.type_arguments.as_deref());
                    converter(module).named(&base.type_name, arguments)
                });
                let keys = it.body.body.iter().filter_map(key_of_signature);
                inherits(module, &bases.collect::<Vec<_>>(), keys, name, member)
            }
            _ => None,
        };
        if let Some(why) = against {
            found.obstacle.get_or_insert((here, why));
        }
    }
}

/// Takes note of a use; why its name can't be changed, if it can't.
fn is_member(
    module: &Facts<'_, '_>,
    id: NodeId,
    name: &str,
    member: At,
    found: &mut Found,
) -> Option<&'static str> {
    match which(module, id, name) {
        Which::None => None,
        Which::Unknown => Some(UNKNOWN),
        Which::These(places) if places.contains(&member) => {
            let (form, text) = written(module, id);
            found.uses.insert(Use {
                file: module.file,
                span: text,
                form,
            });
            (places.len() > 1).then_some(SHARED)
        }
        Which::These(_) => None,
    }
}

/// How a name is written, and where: within its quotes where it has some.
fn written(module: &Facts<'_, '_>, id: NodeId) -> (Form, Span) {
    let nodes = module.tree.nodes;
    let here = nodes.kind(id);
    let text = span(here.span());
    let form = match nodes.parent_kind(id) {
        AstKind::ObjectProperty(it) if it.shorthand => Form::Key,
        AstKind::BindingProperty(it) if it.shorthand => Form::Key,
        _ => Form::Plain,
    };
    match here {
        AstKind::StringLiteral(_) => (form, Span::new(text.start + 1, text.end - 1)),
        _ => (form, text),
    }
}

/// `"port" in site`, `Site["port"]`, `Pick<Site, "port">`.
fn names_by_text(module: &Facts<'_, '_>, id: NodeId) -> bool {
    let nodes = module.tree.nodes;
    let mut ancestors = nodes.ancestor_kinds(id);
    match ancestors.next() {
        Some(AstKind::BinaryExpression(it)) => it.operator.is_in(),
        Some(AstKind::TSLiteralType(_)) => {
            ancestors
                .take_while(|kind| !kind.is_statement())
                .any(|kind| {
                    matches!(
                        kind,
                        AstKind::TSIndexedAccessType(_) | AstKind::TSTypeParameterInstantiation(_)
                    )
                })
        }
        _ => false,
    }
}

/// Which members the name at a node may be.
fn which(module: &Facts<'_, '_>, id: NodeId, name: &str) -> Which {
    let nodes = module.tree.nodes;
    let here = nodes.kind(id).span();
    let parent = nodes.parent_node(id);
    match parent.kind() {
        AstKind::StaticMemberExpression(it) if it.property.span == here => {
            declared(module, &owner(module, &it.object), name)
        }
        AstKind::ComputedMemberExpression(it) if it.expression.span() == here => {
            declared(module, &owner(module, &it.object), name)
        }
        AstKind::ObjectProperty(it) if it.key.span() == here => {
            of_literal(module, parent.id(), name, span(here))
        }
        AstKind::BindingProperty(it) if it.key.span() == here => {
            match pattern_type(module, nodes.parent_id(parent.id())) {
                Some(ty) => declared(module, &ty, name),
                None => Which::Unknown,
            }
        }
        AstKind::AssignmentTargetPropertyProperty(it) if it.name.span() == here => Which::Unknown,
        AstKind::TSPropertySignature(_)
        | AstKind::TSMethodSignature(_)
        | AstKind::PropertyDefinition(_)
        | AstKind::MethodDefinition(_) => {
            let first = first_of_its_name(module, parent.id(), name);
            Which::These(vec![(module.file, first.unwrap_or(span(here)))])
        }
        _ => Which::None,
    }
}

/// The places where a value's member is declared.
fn declared(module: &Facts<'_, '_>, owner: &Type, name: &str) -> Which {
    let owner = module.world.resolve(&owner.present());
    let mut places = Vec::new();
    for member in owner.members() {
        match module.world.field(member, name) {
            Lookup::Found(field) => {
                let at = (field.file, field.at);
                if !places.contains(&at) {
                    places.push(at);
                }
            }
            Lookup::Missing => {}
            Lookup::Unknown => return Which::Unknown,
        }
    }
    match places.is_empty() {
        true => Which::None,
        false => Which::These(places),
    }
}

/// The type of what a member is read of, as it is declared: what the flow takes away of a union
/// only makes it less.
fn owner<'a>(module: &Facts<'a, '_>, expression: &Expression<'a>) -> Type {
    match expression.get_inner_expression() {
        Expression::Identifier(name) => match module.symbols.of(name) {
            Some(symbol) => symbol_type(module, symbol),
            None => infer(module, expression),
        },
        Expression::StaticMemberExpression(member) => {
            let object = owner(module, &member.object).present();
            module.world.member_type(&object, &member.property.name)
        }
        _ => infer(module, expression),
    }
}

/// A key of a literal: the member of the type that is asked for, or the literal's own.
fn of_literal(module: &Facts<'_, '_>, property: NodeId, name: &str, key: Span) -> Which {
    let nodes = module.tree.nodes;
    let object = nodes.parent_node(property);
    let own = Which::These(vec![(module.file, key)]);
    match wanted(module, object.id()) {
        Some(wanted) if !wanted.is_any() => declared(module, &wanted, name),
        Some(_) => own,
        None => match nodes.parent_kind(object.id()) {
            AstKind::CallExpression(call) if signatures_of_call(module, call).is_none() => {
                Which::Unknown
            }
            AstKind::NewExpression(new) if constructors(module, new).is_none() => Which::Unknown,
            _ => own,
        },
    }
}

/// The type that is taken apart by a pattern.
fn pattern_type(module: &Facts<'_, '_>, pattern: NodeId) -> Option<Type> {
    let nodes = module.tree.nodes;
    let parent = nodes.parent_node(pattern);
    match parent.kind() {
        AstKind::VariableDeclarator(it) => match (&it.type_annotation, &it.init) {
            (Some(annotation), _) => Some(converter(module).ty(&annotation.type_annotation)),
            (None, Some(init)) => Some(owner(module, init)),
            (None, None) => None,
        },
        AstKind::FormalParameter(it) => {
            let annotation = it.type_annotation.as_ref()?;
            Some(converter(module).ty(&annotation.type_annotation))
        }
        AstKind::BindingProperty(it) => {
            let outer = pattern_type(module, nodes.parent_id(parent.id()))?;
            match module.world.field(&outer.present(), &it.key.static_name()?) {
                Lookup::Found(field) => Some(field.ty),
                _ => None,
            }
        }
        AstKind::AssignmentPattern(_) => pattern_type(module, parent.id()),
        _ => None,
    }
}

/// Where a member's name stands first in the body that declares it: an accessor and an overload
/// are one member with the others of their name.
fn first_of_its_name(module: &Facts<'_, '_>, declaration: NodeId, name: &str) -> Option<Span> {
    let nodes = module.tree.nodes;
    let keys = keys_beside(
        nodes.parent_kind(declaration),
        is_static(nodes.kind(declaration)),
    );
    let mut named = keys.into_iter().filter(|(key, _)| key == name);
    named.next().map(|(_, at)| at)
}

/// The names of the members in a body, and where they stand.
fn keys_beside(body: AstKind<'_>, wanted_static: bool) -> Vec<(String, Span)> {
    let named = |key: &PropertyKey<'_>| Some((key.static_name()?.to_string(), span(key.span())));
    match body {
        AstKind::ClassBody(it) => {
            let elements = it.body.iter().filter(|it| it.r#static() == wanted_static);
            let keys = elements.filter_map(ClassElement::property_key);
            keys.filter_map(named).collect()
        }
        AstKind::TSInterfaceBody(it) => {
            let keys = it.body.iter().filter_map(key_of_signature);
            keys.filter_map(named).collect()
        }
        AstKind::TSTypeLiteral(it) => {
            let keys = it.members.iter().filter_map(key_of_signature);
            keys.filter_map(named).collect()
        }
        _ => Vec::new(),
    }
}

fn is_static(declaration: AstKind<'_>) -> bool {
    match declaration {
        AstKind::PropertyDefinition(it) => it.r#static,
        AstKind::MethodDefinition(it) => it.r#static,
        _ => false,
    }
}

fn key_of_signature<'s, 'a>(member: &'s TSSignature<'a>) -> Option<&'s PropertyKey<'a>> {
    match member {
        TSSignature::TSPropertySignature(it) => Some(&it.key),
        TSSignature::TSMethodSignature(it) => Some(&it.key),
        _ => None,
    }
}

/// Whether the type that declares `member` has another member called `name`.
pub(super) fn is_taken(project: &Project, member: At, name: &str) -> bool {
    let source = project.entry(member.0).map(|entry| entry.source.clone());
    let taken = source.and_then(|source| {
        project.with(member.0, &source, |module, _| {
            let id = node_at(module, member.1.start)?;
            let nodes = module.tree.nodes;
            let declaration = nodes.parent_node(id);
            let body = nodes.parent_kind(declaration.id());
            let keys = keys_beside(body, is_static(declaration.kind()));
            Some(keys.iter().any(|(key, _)| key == name))
        })
    });
    taken.flatten().unwrap_or_default()
}

fn arguments(module: &Facts<'_, '_>, list: Option<&TSTypeParameterInstantiation<'_>>) -> Vec<Type> {
    let converter = converter(module);
    let params = list.map(|list| list.params.iter().map(|ty| converter.ty(ty)).collect());
    params.unwrap_or_default()
}

fn bases_of_class<'a>(module: &Facts<'a, '_>, class: &Class<'a>) -> Vec<Type> {
    let mut bases: Vec<Type> = class
        .implements
        .iter()
        .map(|it| {
            let arguments = arguments(module, it.type_arguments.as_deref());
            converter(module).named(&it.expression, arguments)
        })
        .collect();
    if let Some(heritage) = &class.heritage {
        bases.push(match infer(module, &heritage.expression) {
            Type::ClassOf(name) => Type::Named(name, [].into()),
            _ => Type::Any,
        });
    }
    bases
}

/// Whether a type has a member of the name itself and from a base, one of which is the member.
fn inherits<'k, 'a: 'k>(
    module: &Facts<'_, '_>,
    bases: &[Type],
    mut keys: impl Iterator<Item = &'k PropertyKey<'a>>,
    name: &str,
    member: At,
) -> Option<&'static str> {
    let own = keys.find(|key| key.static_name().is_some_and(|key| key == name))?;
    let is_own = (module.file, span(own.span())) == member;
    let related = bases
        .iter()
        .any(|base| match module.world.field(base, name) {
            Lookup::Found(field) => is_own || (field.file, field.at) == member,
            Lookup::Missing => false,
            Lookup::Unknown => true,
        });
    related.then_some(INHERITED)
}

fn span(span: oxc::span::Span) -> Span {
    Span::new(span.start, span.end)
}

/// A module and a place in it, of whichever file.
pub(super) fn place(project: &Project, (file, at): (FileId, Span)) -> String {
    let entry = project.entry(file);
    let shown = entry.map(|entry| {
        let position = entry.source.position(at.start);
        format!("{}:{}:{}", entry.path, position.line, position.column)
    });
    shown.unwrap_or_default()
}
