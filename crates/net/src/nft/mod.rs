// SPDX-License-Identifier: Apache-2.0
//! Our nftables tables: what is in them as data, and one transaction that makes it so.
//!
//! * [`ruleset`]: both tables, from the settings; [`rules_bridge`] and [`rules_inet`] are their
//!   rules, [`sets`] what these look up. Pure.
//! * [`elements`]: what one interface adds to the sets. Pure. An interface comes and goes by its
//!   elements alone, so it costs the same whether ten are there or a thousand.
//! * [`message`], [`expression`], [`attributes`]: the bytes, written by hand (ADR 36).

pub(crate) mod attributes;
pub(crate) mod elements;
pub(crate) mod expression;
pub(crate) mod message;
pub(crate) mod rules_bridge;
pub(crate) mod rules_inet;
pub(crate) mod ruleset;
pub(crate) mod sets;
