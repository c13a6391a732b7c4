// SPDX-License-Identifier: Apache-2.0
//! The checker: whether a program uses the API as its types say. What the API's schema makes
//! certain is an error, and keeps a program from being planned and applied; every other finding is
//! a warning. A small structural type checker over oxc's tree and semantic model; the types are
//! those of `aurae.d.ts` and of what the program itself declares. Where it can't know it stays
//! silent: each finding that claims an error of types is one that `tsc --strict` reports too, on
//! the same line (a property test holds it). It doesn't parse for errors of form and doesn't
//! resolve imports: `program` does. Called by `aurae check`, by plans and applies, by the prompt's
//! `.type` and by the editors' server.
//!
//! What is known of a module are its [`Facts`]; all that is decided are passes over them, free
//! functions that each live in the file of their idea: `infer`, `symbols`, `calls` say what type
//! something has, `fit`, `parts`, `given`, `range` what may stand where, `exports` what others see,
//! and `walk` with `names`, `arguments`, `promises`, `ends`, `absent` what is wrong. What is asked
//! of a type alone is [`World`]'s (`asked`, `shape`, `assign`).

mod absent;
mod arguments;
mod asked;
mod assign;
mod calls;
mod class;
mod convert;
mod ends;
mod expected;
mod exports;
mod facts;
mod fit;
mod given;
mod infer;
mod learn;
mod meant;
mod names;
mod narrow;
mod parts;
mod promises;
mod range;
mod report;
mod schedule;
mod shape;
mod substitute;
mod symbols;
mod table;
#[cfg(test)]
mod tests;
mod told;
mod types;
mod walk;
mod words;
mod world;

use std::collections::HashMap;
use std::sync::Arc;

use oxc::allocator::Allocator;

pub(crate) use calls::{Called, constructors, signatures_of_call};
pub use expected::expected;
pub(crate) use exports::doc_of;
pub(crate) use facts::Facts;
pub(crate) use infer::infer;
pub(crate) use learn::{Learnt, learnt};
pub(crate) use meant::converter;
pub(crate) use names::is_global;
pub(crate) use range::readable;
pub(crate) use report::Report;
pub use report::Seen;
pub(crate) use schedule::{file_id, settle};
pub(crate) use symbols::symbol_type;
pub use table::Environment;
pub(crate) use types::{ENVIRONMENT, Field, FileId, LIBRARY, Signature, Type};
pub(crate) use walk::{declared_place, reports};
pub(crate) use world::{Lookup, Origin, Slot, World};

use crate::finding::Finding;
use crate::parse;
use crate::program::Program;
use crate::source::{Source, Span};

/// A module of the program that is checked.
#[derive(Clone, Debug)]
pub struct File {
    /// Its text.
    pub source: Source,
    /// The modules it imports: the specifier as it is written, and which of the files it is.
    pub imports: HashMap<String, usize>,
}

/// A finding, and what the compiler of TypeScript says in its place.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What is wrong.
    pub finding: Finding,
    /// Whether the compiler sees it too.
    pub seen: Seen,
    /// Where the compiler puts its error; its line is what is promised.
    pub anchor: Span,
}

/// All findings in all files, in their order. Files that don't parse are passed over.
pub fn check(environment: &Arc<Environment>, files: &[File]) -> Vec<Finding> {
    let claims = claims_in(environment, files).into_iter();
    claims.map(|claim| claim.finding).collect()
}

/// All findings of types in a program that has been read. Its findings of form aren't among them.
pub fn check_program(environment: &Arc<Environment>, program: &Program) -> Vec<Finding> {
    let claims = claims(environment, program).into_iter();
    claims.map(|claim| claim.finding).collect()
}

/// Like [`check_program`], with what the compiler sees of each: for the test that holds them
/// against it.
pub fn claims(environment: &Arc<Environment>, program: &Program) -> Vec<Claim> {
    let modules = program.modules();
    let indices: HashMap<&str, usize> = modules
        .iter()
        .enumerate()
        .map(|(index, module)| (module.path.as_str(), index))
        .collect();
    let files = modules.iter().map(|module| File {
        source: module.source.clone(),
        imports: module
            .outline
            .imports
            .iter()
            .filter_map(|import| {
                let index = indices.get(import.target.as_deref()?)?;
                Some((import.specifier.clone(), *index))
            })
            .collect(),
    });
    claims_in(environment, &files.collect::<Vec<_>>())
}

fn claims_in(environment: &Arc<Environment>, files: &[File]) -> Vec<Claim> {
    let reports = schedule::reports(environment, files);
    let pairs = files.iter().zip(reports);
    pairs
        .flat_map(|(file, reports)| {
            let claim = |report: Report| report.claim(&file.source);
            reports.into_iter().map(claim)
        })
        .collect()
}

/// Parses a module and looks at it; the second argument of `look` is whether it is whole. Must run
/// on a big stack, elsewhere the module is empty.
pub(crate) fn analyse<R>(
    world: &World,
    file: types::FileId,
    source: &Source,
    imports: &HashMap<String, types::FileId>,
    look: impl FnOnce(&Facts<'_, '_>, bool) -> R,
) -> R {
    let allocator = Allocator::default();
    let parsed = parse::parse(&allocator, source);
    let (semantic, findings) = parse::analyse(&parsed);
    let whole = parsed.is_sound() && findings.is_empty();
    let facts = Facts::new(file, world, &parsed.program, &semantic, imports);
    look(&facts, whole)
}
