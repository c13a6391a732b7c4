// SPDX-License-Identifier: Apache-2.0
//! Who calls what: the function, method or class under a name, the calls of it in all modules below
//! the root, and the calls that it makes. A call belongs to the innermost function around it that
//! has a name, a constructor's to its class, and what is outside of all to its module. Called by
//! `more`, where TypeScript's service hasn't answered.

use std::collections::{HashMap, HashSet};

use lsp_types::SymbolKind;
use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;
use oxc::span::GetSpan;

use super::navigate::{At, definition};
use super::project::Project;
use super::readable::Readable;
use super::{cursor, declared};
use crate::check::{ENVIRONMENT, Facts, FileId, LIBRARY, Lookup, infer};
use crate::source::Span;

fn own(span: oxc::span::Span) -> Span {
    Span::new(span.start, span.end)
}

/// What calls and is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Callable {
    pub(super) file: FileId,
    /// Of a module its path.
    pub(super) name: String,
    pub(super) kind: SymbolKind,
    /// All of it.
    pub(super) whole: Span,
    /// Its name; empty where it has none.
    pub(super) own: Span,
}

impl Callable {
    /// The same in the present text.
    fn now(self, readable: &Readable) -> Option<Self> {
        let own = readable.now(self.own)?;
        // With something new inside only its name is known to be where it is.
        let whole = readable.now(self.whole).unwrap_or(own);
        Some(Self { own, whole, ..self })
    }

    fn of_module(project: &Project, file: FileId) -> Option<Self> {
        let entry = project.entry(file)?;
        let end = u32::try_from(entry.source.text().len()).unwrap_or(u32::MAX);
        Some(Self {
            file,
            name: entry.path.clone(),
            kind: SymbolKind::MODULE,
            whole: Span::new(0, end),
            own: Span::default(),
        })
    }
}

/// One that calls or is called, and the places of the calls in the caller's module.
pub(super) type Calls = Vec<(Callable, Vec<Span>)>;

/// Calls while they are found, each of a callable beside its others.
#[derive(Default)]
struct Found {
    calls: Calls,
    /// Where in the list a callable is. By its file and name: a constructor's class has the whole
    /// that its other calls have, and so has a module.
    known: HashMap<(FileId, Span, Span), usize>,
}

impl Found {
    fn add(&mut self, one: Callable, place: Span) {
        let key = (one.file, one.own, one.whole);
        match self.known.get(&key).and_then(|at| self.calls.get_mut(*at)) {
            Some((_, places)) => places.push(place),
            None => {
                self.known.insert(key, self.calls.len());
                self.calls.push((one, vec![place]));
            }
        }
    }
}

/// What is called by the name at `offset`, or is declared by it, if that can be called.
pub(super) fn prepare(project: &Project, id: FileId, offset: u32) -> Option<Callable> {
    let readable = project.readable(id)?;
    let here = readable.then(offset)?;
    let declared = project.with(id, &readable.source, |module, _| {
        let mut nodes = module.tree.nodes.iter();
        nodes.find_map(|node| {
            let callable = of_node(module, node.id())?;
            let name = callable.own;
            (name.start <= here && here <= name.end && name.start < name.end).then_some(callable)
        })
    });
    if let Some(declared) = declared? {
        return declared.now(&readable);
    }
    let (callable, _) = at(project, definition(project, id, offset)?)?;
    Some(callable)
}

/// The function, method or class that is declared at a place, and where imports of it lead to if
/// that is an `export default`.
fn at(project: &Project, (file, place): At) -> Option<(Callable, Option<At>)> {
    if matches!(file, ENVIRONMENT | LIBRARY) {
        let source = declared::source(&project.world.environment, file);
        let name = source
            .text()
            .get(place.start as usize..place.end as usize)?;
        let callable = Callable {
            file,
            name: name.to_owned(),
            kind: SymbolKind::FUNCTION,
            whole: place,
            own: place,
        };
        return Some((callable, None));
    }
    let readable = project.readable(file)?;
    let start = readable.then(place.start)?;
    let (callable, exported) = project.with(file, &readable.source, |module, _| {
        module.tree.nodes.iter().find_map(|node| {
            let callable = of_node(module, node.id())?;
            let exported = match module.tree.nodes.parent_kind(node.id()) {
                AstKind::ExportDefaultDeclaration(it) => Some(own(it.span)),
                _ => None,
            };
            let is_it = callable.own.start == start;
            let is_it = is_it || exported.is_some_and(|it| it.start == start);
            is_it.then_some((callable, exported))
        })
    })??;
    let exported = exported.map(|it| (file, it));
    Some((callable.now(&readable)?, exported))
}

/// What is declared at each of these places; each module is looked at once.
fn several(project: &Project, places: impl Iterator<Item = At>) -> HashMap<At, Callable> {
    let mut by_file: HashMap<FileId, HashSet<Span>> = HashMap::new();
    for (file, place) in places {
        by_file.entry(file).or_default().insert(place);
    }
    let mut all = HashMap::new();
    for (file, places) in by_file {
        if matches!(file, ENVIRONMENT | LIBRARY) {
            let known = places.into_iter().filter_map(|place| {
                let (callable, _) = at(project, (file, place))?;
                Some(((file, place), callable))
            });
            all.extend(known);
            continue;
        }
        let Some(readable) = project.readable(file) else {
            continue;
        };
        let began = places.into_iter();
        let began = began.filter_map(|place| Some((readable.then(place.start)?, place)));
        let began: HashMap<u32, Span> = began.collect();
        let found = project.with(file, &readable.source, |module, _| {
            declared_at(module, &began)
        });
        for (place, callable) in found.unwrap_or_default() {
            if let Some(callable) = callable.now(&readable) {
                all.entry((file, place)).or_insert(callable);
            }
        }
    }
    all
}

/// What begins at these places, or is exported by a default that does.
fn declared_at(module: &Facts<'_, '_>, began: &HashMap<u32, Span>) -> Vec<(Span, Callable)> {
    let nodes = module.tree.nodes;
    let found = nodes.iter().filter_map(|node| {
        let callable = of_node(module, node.id())?;
        let exported = match nodes.parent_kind(node.id()) {
            AstKind::ExportDefaultDeclaration(it) => began.get(&it.span.start),
            _ => None,
        };
        let place = began.get(&callable.own.start).or(exported)?;
        Some((*place, callable))
    });
    found.collect()
}

/// A function or a class that has a name.
fn of_node(module: &Facts<'_, '_>, id: NodeId) -> Option<Callable> {
    let nodes = module.tree.nodes;
    let (name, kind, key, whole) = match nodes.kind(id) {
        AstKind::Class(it) => {
            let name = it.id.as_ref()?;
            (name.name.to_string(), SymbolKind::CLASS, name.span, it.span)
        }
        AstKind::TSMethodSignature(it) => {
            let name = it.key.static_name()?.to_string();
            (name, SymbolKind::METHOD, it.key.span(), it.span)
        }
        AstKind::Function(it) => match &it.id {
            Some(name) => (
                name.name.to_string(),
                SymbolKind::FUNCTION,
                name.span,
                it.span,
            ),
            None => held(nodes.parent_kind(id), it.span)?,
        },
        AstKind::ArrowFunctionExpression(it) => held(nodes.parent_kind(id), it.span)?,
        _ => return None,
    };
    Some(Callable {
        file: module.file,
        name,
        kind,
        whole: own(whole),
        own: own(key),
    })
}

/// A function without a name of its own has the one of what holds it.
fn held(
    holder: AstKind<'_>,
    function: oxc::span::Span,
) -> Option<(String, SymbolKind, oxc::span::Span, oxc::span::Span)> {
    let (key, whole) = match holder {
        AstKind::MethodDefinition(it) if it.kind != MethodDefinitionKind::Constructor => {
            (&it.key, it.span)
        }
        AstKind::PropertyDefinition(it) => (&it.key, it.span),
        AstKind::ObjectProperty(it) => (&it.key, it.span),
        AstKind::VariableDeclarator(it) => {
            let BindingPattern::BindingIdentifier(name) = &it.id else {
                return None;
            };
            let text = name.name.to_string();
            return Some((text, SymbolKind::FUNCTION, name.span, it.span));
        }
        AstKind::ExportDefaultDeclaration(_) => {
            let name = oxc::span::Span::new(function.start, function.start);
            return Some(("default".to_owned(), SymbolKind::FUNCTION, name, function));
        }
        _ => return None,
    };
    let name = key.static_name()?.to_string();
    Some((name, SymbolKind::METHOD, key.span(), whole))
}

/// A call: whose, where, and what is called.
struct Call {
    /// None: the module's.
    from: Option<Callable>,
    place: Span,
    to: At,
}

/// The calls in a module of what may be called `name`, or all.
fn calls(module: &Facts<'_, '_>, name: Option<&str>) -> Vec<Call> {
    let nodes = module.tree.nodes;
    let found = nodes.iter().filter_map(|node| {
        let callee = match node.kind() {
            AstKind::CallExpression(it) => &it.callee,
            AstKind::NewExpression(it) => &it.callee,
            AstKind::TaggedTemplateExpression(it) => &it.tag,
            _ => return None,
        };
        let (place, to) = target(module, callee.get_inner_expression(), name)?;
        let mut around = nodes.ancestor_ids(node.id());
        Some(Call {
            to,
            from: around.find_map(|id| of_node(module, id)),
            place,
        })
    });
    let mut found: Vec<Call> = found.collect();
    found.sort_by_key(|call| call.place);
    found
}

/// Where the name stands that is called, and where it is declared; of members only those with that
/// name.
fn target<'a>(
    module: &Facts<'a, '_>,
    callee: &Expression<'a>,
    name: Option<&str>,
) -> Option<(Span, At)> {
    match callee {
        // What is imported may have another name here.
        Expression::Identifier(it) => {
            let to = match module.symbols.of(it) {
                Some(symbol) => cursor::declared(module, symbol),
                None => {
                    let values = &module.world.environment.table.values;
                    let value = values.get(it.name.as_str())?;
                    (value.file, value.at)
                }
            };
            Some((own(it.span), to))
        }
        Expression::StaticMemberExpression(it)
            if name.is_none_or(|name| it.property.name == name) =>
        {
            let object = infer(module, &it.object).present();
            match module.world.field(&object, &it.property.name) {
                Lookup::Found(field) => Some((own(it.property.span), (field.file, field.at))),
                Lookup::Missing | Lookup::Unknown => None,
            }
        }
        _ => None,
    }
}

/// Who calls what is declared at a place, in all modules below the root.
pub(super) fn incoming(project: &mut Project, place: At) -> Option<Calls> {
    project.enter_all();
    let (called, exported) = at(project, place)?;
    let modules: Vec<FileId> = match called.file {
        ENVIRONMENT | LIBRARY => project.entries().map(|(id, _)| id).collect(),
        file => project.reached_by(&[file]),
    };
    let mut all = Found::default();
    for file in modules {
        let Some(readable) = project.readable(file) else {
            continue;
        };
        let name = called.name.as_str();
        let theirs = project.with(file, &readable.source, |module, _| {
            calls(module, Some(name))
        });
        let is_meant = |to: At| {
            let to = match to.0 == file {
                true => readable.now(to.1).map(|it| (file, it)),
                false => Some(to),
            };
            to.is_some() && (to == Some((called.file, called.own)) || to == exported)
        };
        let theirs = theirs.unwrap_or_default().into_iter();
        for call in theirs.filter(|call| is_meant(call.to)) {
            let from = match call.from {
                Some(from) => from.now(&readable),
                None => Callable::of_module(project, file),
            };
            if let (Some(from), Some(place)) = (from, readable.now(call.place)) {
                all.add(from, place);
            }
        }
    }
    let mut all = all.calls;
    all.sort_by(|a, b| (&a.0.name, a.0.file, a.0.own).cmp(&(&b.0.name, b.0.file, b.0.own)));
    Some(all)
}

/// What the function, method, class or, without a place, module calls; in the order of the text.
pub(super) fn outgoing(project: &Project, file: FileId, place: Option<Span>) -> Option<Calls> {
    let readable = project.readable(file)?;
    let wanted = match place {
        Some(place) => Some(at(project, (file, place))?.0.own),
        None => None,
    };
    let all = project.with(file, &readable.source, |module, _| calls(module, None))?;
    let made = all.into_iter().filter_map(|call| {
        let from = match call.from {
            Some(from) => Some(from.now(&readable)?.own),
            None => None,
        };
        let to = match call.to.0 == file {
            true => (file, readable.now(call.to.1)?),
            false => call.to,
        };
        let place = readable.now(call.place)?;
        (from == wanted).then_some((to, place))
    });
    let made: Vec<(At, Span)> = made.collect();
    let called = several(project, made.iter().map(|(to, _)| *to));
    let mut found = Found::default();
    for (to, place) in made {
        if let Some(to) = called.get(&to) {
            found.add(to.clone(), place);
        }
    }
    Some(found.calls)
}
