// SPDX-License-Identifier: Apache-2.0
//! The subsystems of a node, one folder each, and its store. Where `model` (Aurae without Linux)
//! and `kernel` (Linux without Aurae) meet. It knows no wire: `auraed/rpc` translates for it.

pub mod identity;
pub mod observe;
pub mod runtime;
pub mod store;

#[cfg(test)]
mod faults;
