// SPDX-License-Identifier: Apache-2.0
//! The parents of all workloads: the node's init, the init of every cell and the spawner between them.

pub mod protocol;

pub use protocol::codec;
