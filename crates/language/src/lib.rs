// SPDX-License-Identifier: Apache-2.0
//! The Aurae language as text: what a program says, whether it is right, and what it looks like to
//! people and to editors. Plain TypeScript over the node's API, whose types come from the API's
//! descriptors.
//!
//! Reads files below a program's root, runs no program and reaches no node; TypeScript's own
//! compiler is asked as a process beside it, where it is on the machine (`tsc`). Running
//! is the crate `script`; the command line and the editors' server's process are `aurae`'s.

pub mod check;
pub mod compile;
pub mod declare;
pub mod finding;
pub mod format;
pub mod frame;
pub mod import;
pub mod limits;
pub mod lsp;
pub mod parse;
pub mod prelude;
pub mod program;
pub mod prompt;
pub mod reference;
mod reserved;
pub mod root;
pub mod schema;
pub mod source;
pub mod stack;
pub mod tsc;
