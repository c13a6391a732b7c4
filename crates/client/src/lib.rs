// SPDX-License-Identifier: Apache-2.0
//! Connecting to a node: contexts, credentials, transport. Shared by all clients of a node: the
//! command line today, other programs later. It knows how to reach a node and how calls fail; its
//! callers decide which calls to make.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::Error> {
//! let config = client::Config::load(&client::Config::default_path())?;
//! let node = client::Node::connect(&config.target(None)?).await?;
//! let status = node.node().get(node.unary(api::node::v0::GetRequest {})).await;
//! # drop(status); Ok(()) }
//! ```

pub mod address;
pub mod config;
pub mod credentials;
mod error;
mod files;
mod line;
mod refusal;
mod stream;
mod tls;
mod transport;

pub use address::Address;
pub use config::{Config, Target};
pub use error::Error;
pub use files::{user_folder, write_private};
pub use refusal::{Refusal, Violation};
pub use tls::{NodeIdentity, connect_tls};
pub use transport::{Node, RPC_DEADLINE};
