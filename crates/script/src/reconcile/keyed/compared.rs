// SPDX-License-Identifier: Apache-2.0
//! A declared object beside what the node has of it: the question that a plan and an apply begin
//! with. It changes nothing; whether the set takes note of the object is the driver's.

use prost_reflect::DynamicMessage;

use super::Keyed;
use crate::host::Question;
use crate::host::nodes::Nodes;
use crate::protocol::Failure;
use crate::reconcile::desired::Verdict;
use crate::reconcile::manifest::Manifests;

/// What a call declares, what is there, and what follows.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) keyed: Keyed,
    /// As the node has it.
    pub(crate) current: Option<DynamicMessage>,
    /// Whether the set held it before.
    pub(crate) ours: bool,
    /// Whether the program has declared it before.
    pub(crate) again: bool,
    pub(crate) verdict: Verdict,
}

impl Keyed {
    /// Compares what a call declares with what is there.
    ///
    /// # Errors
    /// The node can't be asked, or what is there isn't of the set.
    pub(crate) async fn compared(
        nodes: &Nodes,
        set: &Manifests,
        asked: &Question<'_>,
        message: &DynamicMessage,
    ) -> Result<Compared, Failure> {
        let node = asked.call.node.as_deref();
        let own = set.own_tenant(nodes, node).await?;
        let Some(keyed) = Self::of(asked.found, message, &own) else {
            return Err(Failure::new("INTERNAL", "it declares nothing"));
        };
        let member = keyed.member();
        let (_, declared) = set.members(nodes, node).await?;
        let current = keyed.current(nodes, node).await?;
        let ours = set.holds(nodes, node, &member).await?;
        let verdict = keyed.verdict(current.as_ref(), ours, set.claim())?;
        Ok(Compared {
            again: declared.contains(&member),
            keyed,
            current,
            ours,
            verdict,
        })
    }
}
