// SPDX-License-Identifier: Apache-2.0
//! The API's services: each handler turns a message into a checked request (`api::convert`), asks
//! `identity` for a permit, hands both to a subsystem, and turns the answer into a message. No
//! handler decides anything itself. `listen` accepts the connections; `serve` wires the two.

mod attach;
mod audit;
mod away;
mod body;
mod budget;
mod caller;
pub(crate) mod deadline;
pub(crate) mod fetch;
mod identity;
mod image;
pub(crate) mod keys;
mod layer;
pub(crate) mod node;
mod observe;
mod pod;
mod runtime;
mod schedule;
pub(crate) mod server;
mod sets;
mod stream;
mod tenant;
mod unit;

/// The services that a node offers.
const SERVICES: [&str; 10] = [
    "aurae.runtime.v0.Runtime",
    "aurae.observe.v0.Observe",
    "aurae.identity.v0.Identity",
    "aurae.node.v0.Node",
    "aurae.tenant.v0.Tenant",
    "aurae.sets.v0.Sets",
    "aurae.image.v0.Images",
    "aurae.pod.v0.Pods",
    "aurae.schedule.v0.Schedules",
    "aurae.schedule.v0.Units",
];
