// SPDX-License-Identifier: Apache-2.0
//! What the node has decided about itself: its name and its trust domain. The CA's files are the
//! source; these rows notice when the two don't belong together.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Durability, Store, StoreError};

/// The node's identity, as it was at first start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeFacts {
    /// The node's name: a DNS label.
    pub node: String,
    /// `spiffe://THIS/…`.
    pub trust_domain: String,
}

impl Store {
    /// What was put, if anything was.
    ///
    /// # Errors
    /// [`StoreError`] as of any read.
    pub async fn node_facts(&self) -> Result<Option<NodeFacts>, StoreError> {
        self.read(|c| {
            let node = fact(c, "node")?;
            let trust_domain = fact(c, "trust_domain")?;
            Ok(node
                .zip(trust_domain)
                .map(|(node, trust_domain)| NodeFacts { node, trust_domain }))
        })
        .await
    }

    /// Replaces them.
    ///
    /// # Errors
    /// [`StoreError::Degraded`] while writing doesn't work.
    pub async fn put_node_facts(&self, facts: NodeFacts) -> Result<(), StoreError> {
        self.write(Durability::Disk, move |c| {
            put_fact(c, "node", &facts.node)?;
            put_fact(c, "trust_domain", &facts.trust_domain)
        })
        .await
    }
}

fn fact(c: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    c.prepare_cached("SELECT value FROM facts WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

fn put_fact(c: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    c.prepare_cached("INSERT OR REPLACE INTO facts (key, value) VALUES (?1, ?2)")?
        .execute(params![key, value])
        .map(drop)
}
