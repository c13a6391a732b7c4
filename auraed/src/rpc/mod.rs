// SPDX-License-Identifier: Apache-2.0
//! The API's services: each handler turns a message into a checked request (`api::convert`), asks `identity`
//! for a permit, hands both to a subsystem of `node`, and turns the answer into a message. No handler decides
//! anything itself. Connections are `listen`'s; `main` wires the two.

mod body;
mod deadline;
mod layer;
mod stream;
