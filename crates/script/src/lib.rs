// SPDX-License-Identifier: Apache-2.0
//! Runs programs of the Aurae language. The evaluator is a process of its own that holds nothing:
//! no credentials, no files, one socket. This process holds the modules, the channels to nodes and
//! the credentials; whatever a program asks for is a message, checked here.
//!
//! A client of the public API like any other. What a program says, and whether it is right, is the
//! crate `language`'s; flags, terminals and exit statuses are `aurae`'s.

#![allow(
    clippy::result_large_err,
    reason = "an error here is a message for people, made once; boxing it would buy nothing"
)]

pub mod apply;
pub mod confine;
pub mod evaluator;
pub mod host;
pub mod nodes;
pub mod plan;
pub mod program;
pub mod protocol;
pub mod reconcile;
pub mod session;
pub mod value;
pub mod wire;
pub mod yaml;
