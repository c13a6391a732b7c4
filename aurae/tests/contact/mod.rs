// SPDX-License-Identifier: Apache-2.0
//! First contact: what a new user does in the first hour, with the habits of podman, systemctl and
//! kubectl, on a real node.

mod copy;
mod far;
mod habits;
mod pinned;
mod removal;
