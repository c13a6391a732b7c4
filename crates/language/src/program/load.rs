// SPDX-License-Identifier: Apache-2.0
//! Reads what a module reaches, depth first and without recursion, and looks at what the modules
//! say to each other. Runs on a big stack for the parser's sake.

use std::collections::{BTreeSet, HashMap};

use oxc::allocator::Allocator;

use super::ahead::Ahead;
use super::outline::{Import, ImportedName, Outline, outline};
use super::resolve::target;
use super::{Files, Module, Program};
use crate::finding::{Edit, Finding, Fix, Severity};
use crate::limits;
use crate::parse;
use crate::schema::nearest;
use crate::source::{Source, Span};

/// A module whose imports are being read, and which of them is next.
struct Open {
    module: Module,
    next: usize,
}

/// Adds the module of `source` and all that it imports to `program`, each after what it imports.
/// What has been read ahead isn't read again.
pub(super) fn reach(program: &mut Program, files: &dyn Files, source: Source, ahead: &mut Ahead) {
    let mut findings = Vec::new();
    let mut arena = Allocator::default();
    let first = open(program, &mut arena, source, ahead, &mut findings);
    let known = program.modules.len();
    let mut way = vec![first];
    while let Some(opened) = way.last_mut() {
        let Some(import) = opened.module.outline.imports.get(opened.next) else {
            let done = way.pop();
            if let Some(Open { module, .. }) = done {
                let at = program.modules.len();
                program.index.insert(module.path.clone(), at);
                program.modules.push(module);
            }
            continue;
        };
        opened.next += 1;
        let Some(path) = import.target.clone() else {
            continue;
        };
        if program.index.contains_key(&path) {
            continue;
        }
        let (import, importer) = (import.clone(), opened.module.source.clone());
        if let Some(begin) = way.iter().position(|it| it.module.path == path) {
            if import.type_only || import.dynamic {
                continue;
            }
            let names = way.get(begin..).unwrap_or_default().iter();
            let names: Vec<_> = names.map(|it| it.module.path.clone()).collect();
            findings.push(cycle(&importer, &import, &names));
            continue;
        }
        let source = match ahead.source(&path) {
            Some(source) => Ok(source),
            None => files.text(&path).map(|text| Source::new(path, text)),
        };
        match source {
            Ok(source) => way.push(open(program, &mut arena, source, ahead, &mut findings)),
            Err(error) => findings.push(unresolved(&importer, &import, error.to_string())),
        }
    }
    for module in program.modules.get(known..).unwrap_or_default() {
        names_of(program, module, &mut findings);
    }
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.source.name().to_owned(), finding.span);
        key(a).cmp(&key(b))
    });
    program.findings.append(&mut findings);
}

/// Takes a module on the way, if the program may still grow.
fn open(
    program: &mut Program,
    arena: &mut Allocator,
    source: Source,
    ahead: &mut Ahead,
    findings: &mut Vec<Finding>,
) -> Open {
    let before = program.bytes;
    program.bytes = before.saturating_add(source.text().len());
    if program.bytes > limits::PROGRAM_BYTES {
        if before <= limits::PROGRAM_BYTES {
            findings.push(limits::program_too_long(&source));
        }
        let module = Module {
            path: source.name().to_owned(),
            source,
            outline: Outline::default(),
        };
        return Open { module, next: 0 };
    }
    let known = ahead.take(source.name());
    let Read {
        module,
        findings: own,
    } = known.unwrap_or_else(|| read(&program.globals, arena, source));
    findings.extend(own);
    Open { module, next: 0 }
}

/// One module and what is wrong with its form, as far as it can be seen in it alone.
pub(super) struct Read {
    pub(super) module: Module,
    pub(super) findings: Vec<Finding>,
}

/// Parses one module and resolves its specifiers.
pub(super) fn read(globals: &[String], arena: &mut Allocator, source: Source) -> Read {
    let mut findings = Vec::new();
    arena.reset();
    let parsed = parse::parse(arena, &source);
    let mut outline = outline(&parsed);
    if parsed.is_sound() {
        findings.extend(parse::analyse(&parsed).1);
    }
    findings.extend(parsed.findings);
    let path = source.name().to_owned();
    for import in &mut outline.imports {
        match target(&path, &import.specifier) {
            Ok(path) => import.target = Some(path),
            Err(message) => findings.push(unresolved(&source, import, message)),
        }
    }
    let module = Module {
        path,
        source: source.clone(),
        outline,
    };
    shadows(globals, &module, &mut findings);
    Read { module, findings }
}

fn shadows(globals: &[String], module: &Module, findings: &mut Vec<Finding>) {
    for (name, span) in &module.outline.declared {
        if globals.contains(name) {
            findings.push(Finding {
                code: "shadowed-global".into(),
                severity: Severity::Warning,
                message: format!("`{name}` is a name of the language; this declaration hides it"),
                source: module.source.clone(),
                span: *span,
                help: Some("choose another name".into()),
                fixes: Vec::new(),
            });
        }
    }
}

/// Cycles are legal, and work as long as nothing is used before it is there; they are named, and
/// nothing more.
fn cycle(importer: &Source, import: &Import, names: &[String]) -> Finding {
    let begin = names.first().map(String::as_str).unwrap_or_default();
    let way = names.join(" → ");
    Finding {
        code: "import-cycle".into(),
        severity: Severity::Warning,
        message: format!("modules import each other: {way} → {begin}"),
        source: importer.clone(),
        span: import.span,
        help: Some("move what both need into a third module".into()),
        fixes: Vec::new(),
    }
}

fn unresolved(importer: &Source, import: &Import, message: String) -> Finding {
    Finding {
        code: "unresolved-import".into(),
        severity: Severity::Error,
        message,
        source: importer.clone(),
        span: import.span,
        help: None,
        fixes: Vec::new(),
    }
}

/// Every name that the module takes from another must be there.
fn names_of(program: &Program, module: &Module, findings: &mut Vec<Finding>) {
    let mut known: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for import in &module.outline.imports {
        let target = import.target.as_deref();
        let Some(target) = target.and_then(|path| program.module(path)) else {
            continue;
        };
        let names = known
            .entry(&target.path)
            .or_insert_with(|| exported(program, target));
        // A module that doesn't parse exports nothing that an import could be held against.
        if names.is_empty() && program.is_broken(target, findings) {
            continue;
        }
        for taken in &import.names {
            if names.contains(taken.name.as_str()) {
                if !program.is_broken(target, findings) {
                    findings.extend(type_import(program, module, import, target, taken));
                }
                continue;
            }
            let near = nearest(&taken.name, names.iter().copied());
            findings.push(Finding {
                code: "missing-export".into(),
                severity: Severity::Error,
                message: format!("{} exports no `{}`", target.path, taken.name),
                source: module.source.clone(),
                span: taken.span,
                help: near.map(|near| format!("there is `{near}`")),
                fixes: near
                    .map(|near| renamed(taken.span, near))
                    .into_iter()
                    .collect(),
            });
        }
    }
}

/// A type that is taken as if it were a value: the engine, which knows no types, finds nothing.
fn type_import(
    program: &Program,
    module: &Module,
    import: &Import,
    target: &Module,
    taken: &ImportedName,
) -> Option<Finding> {
    let plain = !import.type_only && !import.dynamic && !taken.type_only;
    if !plain || !is_type(program, target, &taken.name) {
        return None;
    }
    let at = Span::new(taken.span.start, taken.span.start);
    Some(Finding {
        code: "type-import".into(),
        severity: Severity::Error,
        message: format!("`{}` is a type, and imported as a value", taken.name),
        source: module.source.clone(),
        span: taken.span,
        help: Some("write `type` before it: types are gone when the program runs".into()),
        fixes: vec![Fix {
            title: "Add `type`".to_owned(),
            edits: vec![Edit {
                span: at,
                text: "type ".to_owned(),
            }],
        }],
    })
}

/// Whether what a module exports under a name is a type alone, as far as that is certain.
fn is_type(program: &Program, module: &Module, name: &str) -> bool {
    // Passed on by one module after the other: no further than a program is deep.
    let mut at = (module, name.to_owned());
    for _ in 0..program.modules.len().saturating_add(1) {
        let (module, name) = &at;
        let exports = &module.outline.exports;
        let Some(export) = exports.iter().find(|export| export.name == *name) else {
            return false;
        };
        if export.type_only {
            return true;
        }
        let passed = module.outline.imports.iter().find_map(|import| {
            let local = export.local.as_deref().unwrap_or(name);
            let mut taken = import.names.iter();
            let taken = taken.find(|taken| taken.local == local)?;
            Some((import, taken))
        });
        let Some((import, taken)) = passed else {
            let local = export.local.as_deref();
            let declared = |local: &str| module.outline.declared.iter().any(|it| it.0 == local);
            return name != "default" && local.is_some_and(|local| !declared(local));
        };
        if taken.type_only || import.type_only {
            return true;
        }
        let target = import
            .target
            .as_deref()
            .and_then(|path| program.module(path));
        match target {
            Some(target) => at = (target, taken.name.clone()),
            None => return false,
        }
    }
    false
}

fn renamed(span: Span, near: &str) -> Fix {
    Fix {
        title: format!("Change to `{near}`"),
        edits: vec![Edit {
            span,
            text: near.to_owned(),
        }],
    }
}

impl Program {
    fn is_broken(&self, module: &Module, findings: &[Finding]) -> bool {
        let mut all = self.findings.iter().chain(findings);
        all.any(|it| it.source.name() == module.path && matches!(&*it.code, "syntax" | "limit"))
    }
}

/// All names that a module exports, those of `export *` too.
fn exported<'p>(program: &'p Program, module: &'p Module) -> BTreeSet<&'p str> {
    let mut names = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut left = vec![(module, true)];
    while let Some((module, own)) = left.pop() {
        if !seen.insert((&module.path, own)) {
            continue;
        }
        let exports = module.outline.exports.iter();
        let passed = exports.filter(|export| own || export.name != "default");
        names.extend(passed.map(|export| export.name.as_str()));
        for import in module.outline.imports.iter().filter(|it| it.passes_all) {
            let target = import.target.as_deref();
            left.extend(
                target
                    .and_then(|path| program.module(path))
                    .map(|it| (it, false)),
            );
        }
    }
    names
}
