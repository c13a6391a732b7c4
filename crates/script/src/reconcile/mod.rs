// SPDX-License-Identifier: Apache-2.0
//! What a plan and an apply share: what a program declares, what the node has of it, what follows
//! from the two, and what the program's set holds. Both drivers (`plan`, `apply`) decide by these
//! files, so that what is planned is what is done. Nothing here changes a node but `manifest`,
//! which keeps the set's own record, and `prune::take_away`.
//!
//! What declares is the contract's word (`option (aurae.declares)`): `desired` for workloads,
//! `keyed` for everything else.

pub(crate) mod asking;
pub(crate) mod call;
pub mod change;
pub(crate) mod current;
pub(crate) mod desired;
pub mod difference;
pub(crate) mod guest;
pub(crate) mod journal;
pub(crate) mod keyed;
pub mod manifest;
pub(crate) mod noop;
pub(crate) mod predict;
pub(crate) mod prune;
pub mod set;
