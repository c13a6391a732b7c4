// SPDX-License-Identifier: Apache-2.0
//! What a program has without importing it: the names that the engine knows at run time beside
//! those that the declarations promise, and the members of each. A name in only one of the two
//! lists is a program that passes the check and dies, or one that would run and is refused.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    Class, ClassElement, Declaration, Expression, PropertyKey, Statement, TSInterfaceDeclaration,
    TSNamespaceDeclarationBody, TSSignature, TSType, VariableDeclarator,
};
use oxc::parser::Parser;
use oxc::span::SourceType;
use script::protocol::{Module, Start};

/// ECMAScript as the checker knows it.
const LIBRARY: &str = include_str!("../../language/src/check/library.d.ts");

/// What the library's interfaces describe that no global makes: what is made by syntax, or is only
/// a form that many things have.
const FORMS: [&str; 9] = [
    "PromiseLike",
    "Iterable",
    "IterableIterator",
    "AsyncIterable",
    "AsyncIterator",
    "AsyncIterableIterator",
    "Generator",
    "AsyncGenerator",
    "Iterator",
];

/// Of what the checker knows no members: a program may do with them what it likes.
const NAMES_ALONE: [&str; 1] = ["Symbol"];

/// What `DOMException` keeps of a time before names: declared nowhere on purpose.
const LEGACY: &str = "_ERR";

/// What everything has, and so is told of nothing.
const COMMON: [&str; 4] = ["length", "toString", "valueOf", "toLocaleString"];

/// By reflection: each global name, its own members, and those of what it makes. What can't be made
/// by `new` alone is made here. A name that is only kept for later throws when it is read.
const REFLECT: &str = r"
const made = {
  AbortController: () => new AbortController(),
  AbortSignal: () => new AbortController().signal,
  TextDecoder: () => new TextDecoder(),
  TextEncoder: () => new TextEncoder(),
  AuraeError: () => new AuraeError({
    code: 'NOT_FOUND', message: 'a', hint: 'a', field: 'a', object: 'a', method: 'a',
  }),
  Executable: () => new Executable({ name: 'a', argv: ['a'] }),
  Cell: () => new Cell({ name: 'a' }),
  Image: () => new Image('a'),
  Pod: () => new Pod({ name: 'a', containers: [] }),
};
// What every object, function and error has.
const apart = new Set([
  Object.prototype, Function.prototype, Error, Error.prototype, new Error('a'), () => {},
].flatMap((one) => Object.getOwnPropertyNames(one)));
apart.add('prototype');
const names = (value) => {
  const found = new Set();
  for (let at = value; at; at = Object.getPrototypeOf(at)) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (at === Function.prototype || at === Object.prototype) continue;
      if (!apart.has(name) || name === 'name' && value instanceof Workload) found.add(name);
    }
  }
  return [...found];
};
for (const name of Object.getOwnPropertyNames(globalThis)) {
  let value;
  try {
    value = globalThis[name];
  } catch (error) {
    if (!`${error}`.includes(`isn't offered yet`)) throw error;
    continue;
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  const own = isObject || typeof value === 'function' ? names(value) : [];
  const inner = typeof value === 'function' ? names(made[name]?.() ?? value.prototype) : [];
  print(`${name}|${own.join(' ')}|${inner.join(' ')}`);
}
";

/// The members of a name itself, and of what it makes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Members {
    own: BTreeSet<String>,
    made: BTreeSet<String>,
}

/// What the engine has.
async fn engine() -> BTreeMap<String, Members> {
    let start = Start {
        prelude: vec![Module {
            name: language::prelude::NAME.to_owned(),
            code: language::prelude::JAVASCRIPT.to_owned(),
        }],
        ..Start::default()
    };
    let (mut session, host) = support::session(support::options(start)).await;
    session
        .run(support::main(REFLECT), "main.ts")
        .await
        .unwrap();
    let words = |text: &str| {
        let words = text.split(' ').filter(|word| !word.is_empty());
        let kept = words.filter(|word| !word.ends_with(LEGACY) && !COMMON.contains(word));
        kept.map(str::to_owned).collect()
    };
    let text = host.text();
    let lines = text.lines().map(|line| {
        let mut parts = line.split('|');
        let name = parts.next().unwrap().to_owned();
        let own = words(parts.next().unwrap());
        let made = words(parts.next().unwrap());
        (name, Members { own, made })
    });
    lines.collect()
}

/// What a text of declarations declares.
#[derive(Default)]
struct Declared<'a> {
    values: BTreeMap<String, Members>,
    /// Values whose members are an interface's.
    of: Vec<(String, String)>,
    interfaces: BTreeMap<String, BTreeSet<String>>,
    extends: Vec<(String, &'a str)>,
    /// Interfaces that lend their members to the class of a name.
    lent: Vec<(String, &'a str)>,
    /// Interfaces of the value of their own name: there is one of it.
    single: BTreeSet<String>,
    text: &'a str,
}

fn key(key: &PropertyKey<'_>) -> Option<String> {
    key.static_name().map(|name| name.into_owned())
}

fn signatures(all: &[TSSignature<'_>]) -> BTreeSet<String> {
    let name = |one: &TSSignature<'_>| match one {
        TSSignature::TSMethodSignature(method) => key(&method.key),
        TSSignature::TSPropertySignature(property) => key(&property.key),
        _ => None,
    };
    all.iter().filter_map(name).collect()
}

impl<'a> Declared<'a> {
    fn read(allocator: &'a Allocator, text: &'a str) -> Self {
        let parsed = Parser::new(allocator, text, SourceType::d_ts()).parse();
        assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
        let body = allocator.alloc(parsed.program);
        let mut found = Self {
            text,
            ..Self::default()
        };
        for statement in &body.body {
            found.statement(statement);
        }
        for (value, interface) in std::mem::take(&mut found.of) {
            let own = found.interfaces.get(&interface).cloned();
            found.values.entry(value).or_default().own = own.unwrap_or_default();
        }
        for (name, interface) in std::mem::take(&mut found.lent) {
            let lent = found.interfaces.get(interface).cloned();
            if let Some(class) = found.values.get_mut(&name) {
                class.made.extend(lent.unwrap_or_default());
            }
        }
        // Bases come before what extends them.
        for (name, base) in std::mem::take(&mut found.extends) {
            let base = found.values.get(base);
            let (own, made) = base
                .map(|base| (base.own.clone(), base.made.clone()))
                .unwrap_or_default();
            let members = found.values.entry(name).or_default();
            members.own.extend(own);
            members.made.extend(made);
        }
        let drop = |all: &mut BTreeSet<String>| all.retain(|one| !COMMON.contains(&one.as_str()));
        found
            .values
            .values_mut()
            .for_each(|members| drop(&mut members.made));
        found.interfaces.values_mut().for_each(drop);
        found
    }

    fn statement(&mut self, statement: &'a Statement<'a>) {
        match statement.as_declaration() {
            Some(Declaration::VariableDeclaration(all)) => {
                for one in &all.declarations {
                    self.variable(one);
                }
            }
            Some(Declaration::FunctionDeclaration(function)) => {
                let name = function.id.as_ref().unwrap().name.to_string();
                self.values.entry(name).or_default();
            }
            Some(Declaration::ClassDeclaration(class)) => self.class(class),
            Some(Declaration::TSInterfaceDeclaration(interface)) => self.interface("", interface),
            Some(Declaration::TSNamespaceDeclaration(namespace)) => {
                let name = namespace.id.name.to_string();
                let TSNamespaceDeclarationBody::TSModuleBlock(block) = &namespace.body else {
                    return;
                };
                for inner in &block.body {
                    let inner = match inner {
                        Statement::ExportDeclaration(export) => Some(&export.declaration),
                        other => other.as_declaration(),
                    };
                    if let Some(Declaration::TSInterfaceDeclaration(interface)) = inner {
                        self.interface(&format!("{name}."), interface);
                    }
                }
            }
            _ => {}
        }
    }

    fn interface(&mut self, within: &str, interface: &TSInterfaceDeclaration<'_>) {
        let name = format!("{within}{}", interface.id.name);
        let members = signatures(&interface.body.body);
        self.interfaces
            .entry(name.clone())
            .or_default()
            .extend(members);
        for base in &interface.extends {
            let base = self
                .text
                .get(base.span.start as usize..base.span.end as usize);
            self.lent.push((name.clone(), base.unwrap()));
        }
    }

    fn variable(&mut self, one: &VariableDeclarator<'_>) {
        let name = one.id.get_identifier_name().unwrap().to_string();
        let kind = one
            .type_annotation
            .as_ref()
            .map(|kind| &kind.type_annotation);
        let mut members = Members::default();
        match kind {
            Some(TSType::TSTypeLiteral(literal)) => members.own = signatures(&literal.members),
            Some(TSType::TSTypeReference(reference)) => {
                let interface = reference.type_name.to_string();
                if interface == name {
                    self.single.insert(name.clone());
                }
                self.of.push((name.clone(), interface));
            }
            _ => {}
        }
        self.values.insert(name, members);
    }

    fn class(&mut self, class: &'a Class<'a>) {
        let name = class.id.as_ref().unwrap().name.to_string();
        let mut members = Members::default();
        for element in &class.body.body {
            let (key_of, is_static) = match element {
                ClassElement::MethodDefinition(method) if !method.kind.is_constructor() => {
                    (key(&method.key), method.r#static)
                }
                ClassElement::PropertyDefinition(property) => {
                    (key(&property.key), property.r#static)
                }
                _ => continue,
            };
            let list = if is_static {
                &mut members.own
            } else {
                &mut members.made
            };
            list.extend(key_of);
        }
        let base = class.heritage.as_ref().map(|heritage| &heritage.expression);
        let base = base.and_then(Expression::get_identifier_reference);
        if let Some(base) = base {
            self.extends.push((name.clone(), base.name.as_str()));
        }
        self.values.insert(name, members);
    }
}

#[tokio::test]
async fn the_types_have_what_the_engine_has() {
    let allocator = Allocator::default();
    let declared = Declared::read(&allocator, language::declare::aurae_d_ts().unwrap());
    let library = Declared::read(&allocator, LIBRARY);
    let engine = engine().await;
    let of_engine: BTreeSet<_> = engine.keys().collect();
    // What every function has, and no module.
    let of_types: BTreeSet<_> = declared
        .values
        .keys()
        .chain(library.values.keys())
        .collect();
    let of_types: BTreeSet<_> = of_types
        .into_iter()
        .filter(|name| *name != "arguments")
        .collect();
    let only = |one: &BTreeSet<&String>, other: &BTreeSet<&String>| -> Vec<String> {
        one.difference(other).map(|name| (*name).clone()).collect()
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(
        (only(&of_engine, &of_types), only(&of_types, &of_engine)),
        (none.clone(), none),
        "only in the engine, only in the types"
    );
    let mut wrong = Vec::new();
    for (name, types) in &declared.values {
        let found = engine.get(name).unwrap();
        // Its fields are abstract: those of what extends it.
        if types != found && name != "Workload" {
            wrong.push(format!(
                "{name}: the engine has {found:?}, the types have {types:?}"
            ));
        }
    }
    wrong.extend(of_library(&library, &engine));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every interface of the library against what the engine has: what instances have, what stands on
/// the constructor, or what an object has that is there once (`Math`).
fn of_library(library: &Declared<'_>, engine: &BTreeMap<String, Members>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut held = 0;
    for (name, types) in &library.interfaces {
        if FORMS.contains(&name.as_str()) || NAMES_ALONE.contains(&name.as_str()) {
            assert!(
                types.is_empty(),
                "{name} says members: hold them against the engine"
            );
            continue;
        }
        let of_constructor = name.strip_suffix("Constructor");
        let global = engine.get(of_constructor.unwrap_or(name)).unwrap();
        let is_single = library.single.contains(name);
        let found = match of_constructor.is_some() || is_single {
            true => &global.own,
            false => &global.made,
        };
        held += 1;
        let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
            one.difference(other).cloned().collect()
        };
        if types != found {
            let (ours, theirs) = (only(types, found), only(found, types));
            wrong.push(format!(
                "{name}: only in the types {ours:?}, only in the engine {theirs:?}"
            ));
        }
    }
    assert!(held >= 15, "{held} interfaces were held against the engine");
    wrong
}

#[tokio::test]
async fn an_exception_of_the_engine_is_an_error() {
    let thrown = support::run("await sleep(9000, { signal: AbortSignal.timeout(1) });");
    let thrown = thrown.await.unwrap_err();
    let said = (thrown.name.as_str(), thrown.message.as_str());
    assert_eq!(said, ("TimeoutError", "it took too long"));
    let caused = "throw new Error('a', { cause: AbortSignal.abort().reason });";
    let caused = support::run(caused).await.unwrap_err();
    assert_eq!(caused.causes[0].text, "AbortError: it was aborted");
    let printed = support::run("print(AbortSignal.abort().reason);").await;
    assert_eq!(printed.unwrap(), "AbortError: it was aborted\n");
}

#[tokio::test]
async fn time_begins_with_the_evaluator() {
    let text = "const now = performance.now();
        print(now >= 0, Math.abs(performance.timeOrigin + now - Date.now()) < 3600000);";
    assert_eq!(support::run(text).await.unwrap(), "true true\n");
}
