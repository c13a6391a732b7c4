// SPDX-License-Identifier: Apache-2.0
//! What of the friendly layer's types a program may name: some of its classes and interfaces, and
//! the members that a subsystem has beside its RPCs.

use std::collections::BTreeMap;

use oxc::allocator::Allocator;
use oxc::ast::ast::{Declaration, Program, Statement, TSInterfaceDeclaration, TSSignature};
use oxc::codegen::{Codegen, CodegenOptions, CommentOptions, IndentChar};
use oxc::isolated_declarations::{IsolatedDeclarations, IsolatedDeclarationsOptions};
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType, Span};

use super::FILES;

/// Types of the layer that programs see, by name. The others are its own affair.
const PUBLIC: [&str; 16] = [
    "AuraeError",
    "Workload",
    "Image",
    "ImagePull",
    "Target",
    "ServerStream",
    "BidiStream",
    "Ran",
    "LinesOptions",
    "Lines",
    "Action",
    "Actions",
    "GrantScope",
    "UserHandle",
    "ScheduleOptions",
    "Subsystems",
];

/// The layer's part of `aurae.d.ts`.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    /// Declarations of globals, each with its JSDoc.
    pub(crate) global: Vec<String>,
    friendly: BTreeMap<String, Friendly>,
}

/// What a subsystem has beside its RPCs.
#[derive(Debug, Default)]
pub(crate) struct Friendly {
    pub(crate) members: Vec<Member>,
}

/// One member of a `…Friendly` interface.
#[derive(Debug)]
pub(crate) struct Member {
    /// Empty for the object's own call.
    pub(crate) name: String,
    /// As written, with its JSDoc.
    pub(crate) text: String,
    /// The same as a call signature: without the name.
    pub(crate) signature: String,
}

impl Exported {
    /// Of a subsystem, by `runtime`.
    pub(crate) fn friendly(&self, subsystem: &str) -> Option<&Friendly> {
        self.friendly.get(subsystem)
    }
}

/// Reads all files of the layer.
pub(crate) fn exported() -> Exported {
    let mut found = Exported::default();
    for (_, source) in FILES {
        read(&declarations(source), &mut found);
    }
    found
}

/// A file without the line of its licence and what it says of itself.
pub(crate) fn without_header(source: &str) -> String {
    let lines = source.lines().skip_while(|line| line.starts_with("//"));
    let text: Vec<_> = lines.skip_while(|line| line.is_empty()).collect();
    text.join("\n") + "\n"
}

/// The `.d.ts` of a file, as a compiler that looks at no other file writes it.
fn declarations(source: &str) -> String {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts().with_module(true)).parse();
    let options = IsolatedDeclarationsOptions {
        strip_internal: true,
    };
    let made = IsolatedDeclarations::new(&allocator, options).build(&parsed.program);
    let options = CodegenOptions {
        comments: CommentOptions {
            jsdoc: true,
            ..CommentOptions::disabled()
        },
        indent_char: IndentChar::Space,
        indent_width: 2,
        ..CodegenOptions::default()
    };
    Codegen::new()
        .with_options(options)
        .build(&made.program)
        .code
}

fn read(text: &str, found: &mut Exported) {
    let allocator = Allocator::default();
    let kind = SourceType::d_ts();
    let parsed = Parser::new(&allocator, text, kind).parse();
    for statement in &parsed.program.body {
        let Statement::ExportDeclaration(export) = statement else {
            continue;
        };
        let declaration = &export.declaration;
        let docs = jsdoc(text, &parsed.program, export.span);
        if let Declaration::TSInterfaceDeclaration(interface) = declaration
            && let Some(subsystem) = interface.id.name.strip_suffix("Friendly")
        {
            let friendly = members(text, &parsed.program, interface);
            found
                .friendly
                .insert(subsystem.to_ascii_lowercase(), friendly);
            continue;
        }
        if PUBLIC.contains(&name(declaration).as_str()) {
            found
                .global
                .push(format!("{docs}{}", slice(text, declaration.span())));
        }
    }
}

fn name(declaration: &Declaration<'_>) -> String {
    match declaration {
        Declaration::ClassDeclaration(class) => class
            .id
            .as_ref()
            .map(|id| id.name.to_string())
            .unwrap_or_default(),
        Declaration::TSInterfaceDeclaration(interface) => interface.id.name.to_string(),
        Declaration::TSTypeAliasDeclaration(alias) => alias.id.name.to_string(),
        _ => String::new(),
    }
}

fn members(text: &str, program: &Program<'_>, interface: &TSInterfaceDeclaration<'_>) -> Friendly {
    let members = interface.body.body.iter().map(|member| {
        let docs = jsdoc(text, program, member.span());
        let whole = slice(text, member.span());
        let name = match member {
            TSSignature::TSMethodSignature(method) => slice(text, method.key.span()),
            _ => String::new(),
        };
        let signature = whole.strip_prefix(&name).unwrap_or(&whole).to_owned();
        Member {
            text: outdent(&format!("{docs}{}", ended(&whole))),
            signature: outdent(&format!("{docs}{}", ended(&signature))),
            name,
        }
    });
    Friendly {
        members: members.collect(),
    }
}

fn ended(text: &str) -> String {
    format!("{};", text.trim_end_matches(';'))
}

/// The JSDoc right before a place, with its line end.
fn jsdoc(text: &str, program: &Program<'_>, at: Span) -> String {
    let before = |span: Span| text.get(span.end as usize..at.start as usize);
    let mut comments = program.comments.iter().filter(|comment| comment.is_jsdoc());
    let found = comments
        .find(|comment| before(comment.span).is_some_and(|between| between.trim().is_empty()));
    let Some(comment) = found else {
        return String::new();
    };
    // The printer leaves the lines as far in as they were; the stars go below the first one.
    let comment = slice(text, comment.span);
    let mut lines = comment.lines().map(str::trim);
    let first = lines.next().unwrap_or_default().to_owned();
    let rest: String = lines.map(|line| format!("\n {line}")).collect();
    format!("{first}{rest}\n")
}

fn slice(text: &str, span: Span) -> String {
    text.get(span.start as usize..span.end as usize)
        .unwrap_or_default()
        .to_owned()
}

/// Members stand two columns in.
fn outdent(text: &str) -> String {
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect();
    lines.join("\n")
}
