// SPDX-License-Identifier: Apache-2.0
//! TypeScript to the JavaScript that the evaluator runs, with the way back for every position.
//! Types are erased, enums, namespaces and parameter properties become code; everything else is
//! ECMAScript that the engine knows and stays as it is, `using` too. For a plan the tests of
//! branches are guarded (`plan`); a line of the REPL becomes a script (`repl`).
//!
//! What is wrong is found here only as far as form goes; whether a use of the API is right is the
//! checker's to say.

use std::path::Path;
use std::sync::OnceLock;

use oxc::allocator::Allocator;
use oxc::ast::ast::Program;
use oxc::codegen::{Codegen, CodegenOptions, CommentOptions, IndentChar};
use oxc::semantic::{Scoping, SemanticBuilder};
use oxc::transformer::{TransformOptions, Transformer, TypeScriptOptions};

use crate::finding::{Finding, Severity};
use crate::parse::{self, Parsed};
use crate::source::{Position, Source, Span};
use crate::stack;

mod called;
mod map;
mod plan;
mod protect;
mod repl;

pub use called::Doing;
pub use map::Map;
pub use repl::{compile_repl, is_unfinished};

/// How to compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Guard the tests of branches, so that a plan never takes a way that depends on what it can't
    /// know. The evaluator must define the guard, see [`GUARD`].
    pub plan: bool,
}

/// The global function that a plan's code calls around the value that a branch depends on:
/// `globalThis.__known(value, line, column, file)`. Returns `value`, or throws where it is unknown;
/// the place is the test's in the source as written, counted from 1, columns in characters.
pub const GUARD: &str = "__known";

/// The same for templates, `globalThis.__text(strings, ...values)`, and for `+`,
/// `globalThis.__plus(left, right)`: what they would give, or an unknown value that says of what.
pub const TEXT: &str = "__text";
/// See [`TEXT`].
pub const PLUS: &str = "__plus";

/// What a plan's code calls where all that depends on a test is that something is thrown or
/// printed: `__ask(test, line, column, file)` within a `try`, `__pass(thrown, way, line, column,
/// file)` in its `catch`, which goes on with `way` where the test isn't known and throws the rest
/// again, and `__told()` for the answer. No `await` is between them.
pub const ASK: &str = "__ask";
/// See [`ASK`].
pub const PASS: &str = "__pass";
/// See [`ASK`].
pub const TOLD: &str = "__told";
/// `__skip(thrown, line, column, file)`: goes on behind a loop that only waits for a stream which a
/// plan can't open, and throws the rest again.
pub const SKIP: &str = "__skip";

/// JavaScript and the way back to what was written.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// An ECMAScript module, or a script for the REPL's lines. Lines end with `\n`.
    pub code: String,
    /// From places in `code` to places in `source`.
    pub map: Map,
    /// What was compiled.
    pub source: Source,
    /// Read once an error's place asks for it.
    calls: OnceLock<called::Calls>,
}

impl Compiled {
    fn new(code: String, map: Map, source: Source) -> Self {
        Self {
            code,
            map,
            source,
            calls: OnceLock::new(),
        }
    }

    /// The same for a frame of the engine's stack, of which it is known what its code was doing:
    /// a call's place is that of the called's name, on whatever line the arguments end.
    pub fn frame(&self, line: u32, column: u32, doing: Doing<'_>) -> Option<Position> {
        let told = map::offset(&self.code, line, column)?;
        let read = || stack::on_big_stack(|| called::Calls::read(&self.code)).unwrap_or_default();
        let call = self.calls.get_or_init(read).at(told, doing);
        let written = call.and_then(|call| self.map.at(call));
        let here = || self.original(line, column);
        written.map_or_else(here, |offset| Some(self.source.position(offset)))
    }

    /// What was called at a frame's place, where the engine says that it is no function, and
    /// whether with `new`: `web.nmae`.
    pub fn called(&self, line: u32, column: u32) -> Option<(String, bool)> {
        let told = map::offset(&self.code, line, column)?;
        let read = || stack::on_big_stack(|| called::Calls::read(&self.code)).unwrap_or_default();
        let calls = self.calls.get_or_init(read);
        calls.called(&self.code, told)
    }

    /// Where a place in `code` comes from: lines from 1, columns from 1 in UTF-8 bytes, as the
    /// engine's stack traces count. The answer counts characters, as people do. `None` for code
    /// that nothing written stands behind.
    pub fn original(&self, line: u32, column: u32) -> Option<Position> {
        let offset = self.map.original(&self.code, line, column)?;
        Some(self.source.position(offset))
    }
}

/// Compiles a module. Runs on a big stack of its own where the caller isn't on one.
///
/// # Errors
/// What is wrong with its form, at least one finding.
pub fn compile(source: &Source, options: Options) -> Result<Compiled, Vec<Finding>> {
    on_stack(source, || {
        let allocator = Allocator::default();
        let parsed = parse::parse(&allocator, source);
        compile_parsed(&allocator, parsed, options)
    })
}

/// Compiles what is parsed already. Must run inside [`stack::on_big_stack`].
fn compile_parsed<'a>(
    allocator: &'a Allocator,
    parsed: Parsed<'a>,
    options: Options,
) -> Result<Compiled, Vec<Finding>> {
    if !parsed.is_sound() {
        return Err(parsed.findings);
    }
    let Parsed {
        source,
        mut program,
        ..
    } = parsed;
    protect::protect(allocator, source, &mut program);
    let scoping = erase(allocator, source, &mut program, options)?;
    if options.plan {
        plan::guard(allocator, source, &scoping, &mut program);
    }
    let (code, map) = print(source, &program);
    Ok(Compiled::new(code, map, source.clone()))
}

/// Types out, enums and their like to code; the tree is ECMAScript after it.
fn erase<'a>(
    allocator: &'a Allocator,
    source: &Source,
    program: &mut Program<'a>,
    options: Options,
) -> Result<Scoping, Vec<Finding>> {
    let built = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_build_nodes(true)
        .with_enum_eval(true)
        .with_excess_capacity(2.0)
        .build(program);
    let findings = parse::from_diagnostics(source, built.diagnostics.iter());
    if !findings.is_empty() {
        return Err(findings);
    }
    let scoping = built.semantic.into_scoping();
    let mut transform = TransformOptions {
        typescript: TypeScriptOptions {
            only_remove_type_imports: true,
            ..TypeScriptOptions::default()
        },
        ..TransformOptions::default()
    };
    // `a &&= b` has no place for a guard; `a && (a = b)` has.
    transform.env.es2021.logical_assignment_operators = options.plan;
    let done = Transformer::new(allocator, Path::new(source.name()), &transform)
        .build_with_scoping(scoping, program);
    let mut findings = parse::from_diagnostics(source, done.diagnostics.iter());
    // What the transformer only warns of it leaves out of the code: the program would not do what
    // it says.
    for finding in &mut findings {
        finding.severity = Severity::Error;
    }
    if findings.is_empty() {
        Ok(done.scoping)
    } else {
        Err(findings)
    }
}

fn print(source: &Source, program: &Program<'_>) -> (String, Map) {
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some(Path::new(source.name()).to_owned()),
        indent_char: IndentChar::Space,
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(program);
    let mut map = Map::new();
    if let Some(tokens) = printed.map.as_ref().map(|tokens| tokens.get_tokens()) {
        let tokens = tokens.map(|token| {
            let made = (token.get_dst_line(), token.get_dst_col());
            (made, (token.get_src_line(), token.get_src_col()))
        });
        map = Map::from_lines(&printed.code, source.text(), tokens);
    }
    (printed.code, map)
}

/// Runs `work` on a big stack; that there is room for none is a finding like another.
fn on_stack<T: Send>(
    source: &Source,
    work: impl FnOnce() -> Result<T, Vec<Finding>> + Send,
) -> Result<T, Vec<Finding>> {
    stack::on_big_stack(work).unwrap_or_else(|error| {
        Err(vec![Finding {
            code: "limit".into(),
            severity: Severity::Error,
            message: format!("there is no room for the parser's stack: {error}"),
            source: source.clone(),
            span: Span::new(0, 0),
            help: Some("raise the limit on the process's memory (`ulimit -v`)".into()),
            fixes: Vec::new(),
        }])
    })
}

#[cfg(test)]
mod tests;
