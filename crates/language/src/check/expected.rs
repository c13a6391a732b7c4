// SPDX-License-Identifier: Apache-2.0
//! What a program declares its own values to be: the type of its call of `values(…)`, as data that
//! the evaluator holds a file of values against (`script`'s `values.js`). Declared is what stands
//! as the call's type argument, behind its variable's colon, or behind `as` and `satisfies`; in a
//! literal of defaults, what its parts say so. What is only inferred, or isn't followed, is
//! [`Node::Any`]: there the defaults themselves say what may be laid over them. Says nothing of the
//! program.

use std::collections::HashMap;
use std::sync::Arc;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;
use serde::Serialize;

use super::facts::Facts;
use super::infer::infer;
use super::meant::converter;
use super::names::is_global;
use super::schedule::file_id;
use super::symbols::symbol_type;
use super::types::{ENVIRONMENT, FileId, Name, Shape, Type};
use super::world::{Origin, Slot, World};
use super::{Environment, analyse};
use crate::program::Program;
use crate::stack;

/// Parts of a type that are told; what comes after is any.
const MOST: usize = 10_000;

/// How deep types are followed that have no name of their own.
const DEEP: u32 = 64;

/// The global that gives a program its values.
const VALUES: &str = "values";

/// A type as data. The first part is the whole; parts name each other by their places in the list,
/// in circles too.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Expected(Vec<Node>);

/// A part of a type.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum Node {
    /// The defaults decide.
    Any,
    Never,
    Undefined,
    Null,
    Boolean,
    Number,
    Bigint,
    Text,
    Literal {
        value: serde_json::Value,
    },
    List {
        of: usize,
    },
    Tuple {
        of: Vec<usize>,
    },
    Object {
        fields: Vec<Member>,
        /// Of names that aren't among the fields.
        rest: Option<usize>,
        /// What the defaults have beside these is taken, too.
        open: bool,
    },
    Union {
        of: Vec<usize>,
    },
}

/// A member of an object.
#[derive(Debug, PartialEq, Serialize)]
struct Member {
    name: String,
    of: usize,
    optional: bool,
}

/// The declared type of a program's values, as JSON: a list of parts, of which the first is the
/// whole. None where nothing is declared, and where the program doesn't call `values` in exactly
/// one place: two places may ask for two types.
pub fn expected(environment: &Arc<Environment>, program: &Program) -> Option<String> {
    let found = stack::on_big_stack(|| {
        let world = world(environment, program);
        let modules = program.modules().iter().enumerate();
        let asking = modules.filter(|(_, module)| module.source.text().contains(VALUES));
        let mut found = asking.flat_map(|(index, _)| in_module(&world, file_id(index)));
        let only = found.next()?;
        found.next().is_none().then_some(only)
    });
    let expected = found.ok()??;
    let declares = expected.0.first().is_some_and(|it| *it != Node::Any);
    declares.then(|| serde_json::to_string(&expected).ok())?
}

/// The program's modules, each to be looked at once it is asked for.
fn world(environment: &Arc<Environment>, program: &Program) -> World {
    let modules = program.modules();
    let paths = modules.iter().enumerate();
    let ids: HashMap<&str, FileId> = paths
        .map(|(index, module)| (module.path.as_str(), file_id(index)))
        .collect();
    let slots = modules.iter().map(|module| {
        let imports = module.outline.imports.iter().filter_map(|import| {
            let id = ids.get(import.target.as_deref()?)?;
            Some((import.specifier.clone(), *id))
        });
        Slot::of(Arc::new(Origin {
            source: module.source.clone(),
            imports: imports.collect(),
        }))
    });
    World {
        environment: Arc::clone(environment),
        modules: slots.collect(),
    }
}

/// What each call of `values` in a module declares.
fn in_module(world: &World, file: FileId) -> Vec<Expected> {
    let origin = world.slot(file).and_then(|slot| slot.origin.clone());
    let Some(origin) = origin else {
        return Vec::new();
    };
    analyse(world, file, &origin.source, &origin.imports, |facts, _| {
        world.declare(file, facts);
        let nodes = facts.tree.nodes.iter();
        let calls = nodes.filter_map(|node| match node.kind() {
            AstKind::CallExpression(call) => is_asking(facts, call).then_some((node.id(), call)),
            _ => None,
        });
        calls.map(|(id, call)| of_call(facts, id, call)).collect()
    })
}

fn is_asking(facts: &Facts<'_, '_>, call: &CallExpression<'_>) -> bool {
    match call.callee.get_inner_expression() {
        Expression::Identifier(name) => name.name == VALUES && is_global(facts, name),
        _ => false,
    }
}

fn of_call<'a>(facts: &Facts<'a, '_>, id: NodeId, call: &CallExpression<'a>) -> Expected {
    let mut building = Building {
        world: facts.world,
        all: Vec::new(),
        named: HashMap::new(),
    };
    let argument = call.arguments.first().and_then(Argument::as_expression);
    let of_type = call
        .type_arguments
        .as_ref()
        .and_then(|it| it.params.first());
    match (of_type, declared_around(facts, id), argument) {
        (Some(ty), _, _) => _ = building.add(&converter(facts).ty(ty), 0),
        (None, Some(ty), _) => _ = building.add(&ty, 0),
        (None, None, Some(argument)) => _ = building.add_default(facts, argument, 0),
        (None, None, None) => {}
    }
    Expected(building.all)
}

/// The type that is written around a call: its variable's, or what it is cast to.
fn declared_around<'a>(facts: &Facts<'a, '_>, call: NodeId) -> Option<Type> {
    let nodes = facts.tree.nodes;
    let around = nodes
        .ancestor_kinds(call)
        .find(|kind| !matches!(kind, AstKind::ParenthesizedExpression(_)))?;
    match around {
        AstKind::VariableDeclarator(it) => {
            let annotation = it.type_annotation.as_ref()?;
            Some(converter(facts).ty(&annotation.type_annotation))
        }
        AstKind::TSAsExpression(it) => Some(converter(facts).ty(&it.type_annotation)),
        AstKind::TSSatisfiesExpression(it) => Some(converter(facts).ty(&it.type_annotation)),
        _ => None,
    }
}

/// The parts so far.
struct Building<'w> {
    world: &'w World,
    all: Vec<Node>,
    /// The places of types by their names, so that one may hold itself.
    named: HashMap<Name, usize>,
}

impl Building<'_> {
    /// Adds what a default says of itself: a literal by its parts.
    fn add_default<'a>(
        &mut self,
        facts: &Facts<'a, '_>,
        default: &Expression<'a>,
        depth: u32,
    ) -> usize {
        match default {
            Expression::ParenthesizedExpression(it) => {
                self.add_default(facts, &it.expression, depth)
            }
            Expression::TSSatisfiesExpression(it) => {
                self.add(&converter(facts).ty(&it.type_annotation), depth)
            }
            Expression::ObjectExpression(object) if depth < DEEP => {
                let at = self.place();
                let node = self.literal(facts, object, depth);
                self.put(at, node);
                at
            }
            Expression::TSAsExpression(_) | Expression::TSTypeAssertion(_) => {
                self.add(&infer(facts, default), depth)
            }
            Expression::Identifier(name) if depth < DEEP => self.add_named(facts, name, depth),
            _ => self.place(),
        }
    }

    /// A default that has a name: by its annotation, else by what it was set to.
    fn add_named<'a>(
        &mut self,
        facts: &Facts<'a, '_>,
        name: &IdentifierReference<'a>,
        depth: u32,
    ) -> usize {
        let Some(symbol) = facts.symbols.of(name) else {
            return self.place();
        };
        match facts.symbols.declaration(symbol) {
            AstKind::VariableDeclarator(it) if it.type_annotation.is_none() => match &it.init {
                Some(init) if matches!(it.id, BindingPattern::BindingIdentifier(_)) => {
                    self.add_default(facts, init, depth + 1)
                }
                _ => self.place(),
            },
            _ => match symbol_type(facts, symbol) {
                // Nothing says that it was meant to stay this one.
                ty if ty.is_literal() => self.place(),
                ty => self.add(&ty, depth),
            },
        }
    }

    fn literal<'a>(
        &mut self,
        facts: &Facts<'a, '_>,
        object: &ObjectExpression<'a>,
        depth: u32,
    ) -> Node {
        let mut fields: Vec<Member> = Vec::new();
        let mut open = false;
        for property in &object.properties {
            let ObjectPropertyKind::ObjectProperty(property) = property else {
                open = true;
                continue;
            };
            let Some(name) = property.key.static_name() else {
                open = true;
                continue;
            };
            let of = self.add_default(facts, &property.value, depth + 1);
            fields.retain(|known| known.name != name);
            fields.push(Member {
                name: name.into_owned(),
                of,
                optional: false,
            });
        }
        // One without anything is a table, as its default says.
        let declares = fields
            .iter()
            .any(|it| self.all.get(it.of) != Some(&Node::Any));
        match declares {
            true => Node::Object {
                fields,
                rest: None,
                open,
            },
            false => Node::Any,
        }
    }

    /// Adds a type; its place.
    fn add(&mut self, ty: &Type, depth: u32) -> usize {
        // By the name as it is written: an alias may stand for a union that holds it.
        let name = match ty {
            Type::Named(name, arguments) if arguments.is_empty() => Some(name.clone()),
            _ => None,
        };
        if let Some(known) = name.as_ref().and_then(|name| self.named.get(name)) {
            return *known;
        }
        let ty = self.world.resolve(ty);
        let at = self.place();
        if let Some(name) = name {
            self.named.insert(name, at);
        }
        if depth < DEEP && self.all.len() < MOST {
            let node = self.node(&ty, depth + 1);
            self.put(at, node);
        }
        at
    }

    fn place(&mut self) -> usize {
        self.all.push(Node::Any);
        self.all.len() - 1
    }

    fn put(&mut self, at: usize, node: Node) {
        if let Some(place) = self.all.get_mut(at) {
            *place = node;
        }
    }

    fn node(&mut self, ty: &Type, depth: u32) -> Node {
        match ty {
            Type::Never => Node::Never,
            Type::Undefined => Node::Undefined,
            Type::Null => Node::Null,
            Type::Boolean => Node::Boolean,
            Type::Number => Node::Number,
            Type::BigInt => Node::Bigint,
            Type::String | Type::Template => Node::Text,
            Type::BooleanLiteral(value) => literal((*value).into()),
            Type::NumberLiteral(value) => literal((*value).into()),
            Type::StringLiteral(value) => literal(value.as_ref().into()),
            Type::Union(members) => self.union(members, depth),
            Type::Array(element) => Node::List {
                of: self.add(element, depth),
            },
            Type::Tuple(elements) => Node::Tuple {
                of: elements.iter().map(|it| self.add(it, depth)).collect(),
            },
            Type::Named(name, _) if self.is_of_library(name) => Node::Any,
            Type::Object(_) | Type::Named(..) => match self.world.shape(ty) {
                Some(shape) => self.object(&shape, depth),
                None => Node::Any,
            },
            Type::Any | Type::Symbol | Type::Param(_) | Type::ClassOf(_) | Type::ValueOf(_) => {
                Node::Any
            }
        }
    }

    fn is_of_library(&self, name: &Name) -> bool {
        name.file == ENVIRONMENT && self.world.environment.library.contains(&name.name)
    }

    /// What may be anything may be anything in company, too.
    fn union(&mut self, members: &[Type], depth: u32) -> Node {
        let of: Vec<usize> = members.iter().map(|it| self.add(it, depth)).collect();
        let is_any = |at: &usize| self.all.get(*at) == Some(&Node::Any);
        // One that is still being written is an object that holds itself: it isn't any.
        let open = members.iter().zip(&of).any(|(member, at)| {
            let named = matches!(self.world.resolve(member), Type::Named(..));
            is_any(at) && !named
        });
        match open {
            true => Node::Any,
            false => Node::Union { of },
        }
    }

    /// A plain object; of what can be called, or has private members, data can't be made.
    fn object(&mut self, shape: &Shape, depth: u32) -> Node {
        let made = !shape.calls.is_empty() || !shape.constructs.is_empty() || shape.nominal;
        let says = !shape.fields.is_empty() || shape.index.is_some();
        if made || !says {
            return Node::Any;
        }
        let fields = shape.fields.iter().map(|field| Member {
            name: field.name.to_string(),
            of: self.add(&field.ty, depth),
            optional: field.optional,
        });
        Node::Object {
            fields: fields.collect(),
            rest: shape.index.as_ref().map(|it| self.add(it, depth)),
            open: shape.open,
        }
    }
}

/// A number that isn't finite is no value of JSON.
fn literal(value: serde_json::Value) -> Node {
    match value.is_null() {
        true => Node::Any,
        false => Node::Literal { value },
    }
}
