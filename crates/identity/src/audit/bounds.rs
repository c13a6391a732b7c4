// SPDX-License-Identifier: Apache-2.0
//! How much of the audit each chain may have, and whose oldest lines go where all chains together
//! have too much. Pure; `writer` carries it out.
//!
//! A tenant has its quota `audit_bytes`. All tenants together have the node's bytes less the
//! reserve; the node's own chain, with its administrators' lines, has the reserve for itself, and
//! counts beyond it as a tenant does. Where that is too much, the chain that has most loses its
//! oldest: one tenant's calls never take another tenant's lines while that one has less.

use std::sync::Arc;

use model::name::Tenant;
use model::quota::{ADMINISTRATORS, Capacity, Limits, Quota};

use super::chain::Owner;

/// The smallest file: what a chain always has, however small its quota is.
const MIN_SEGMENT_BYTES: u64 = 4 << 10;

/// How large the audit may become.
#[derive(Clone)]
pub struct AuditLimits {
    /// A file is closed and the next begun before this, in bytes; earlier where a chain may have
    /// less than eight such files.
    pub segment_bytes: u64,
    /// Who may have how much, as of the moment of the call.
    pub limits: Arc<dyn Fn() -> Arc<Limits> + Send + Sync>,
}

impl std::fmt::Debug for AuditLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLimits")
            .field("segment_bytes", &self.segment_bytes)
            .finish_non_exhaustive()
    }
}

impl Default for AuditLimits {
    /// 256 MiB, of which a tenth is the node's own; each tenant has its default share.
    fn default() -> Self {
        let limits = Arc::new(Limits {
            capacity: Capacity {
                whole: [(Quota::AuditBytes, 256 << 20)].into(),
                reserve: 100,
            },
            set: Default::default(),
        });
        Self::of(move || Arc::clone(&limits))
    }
}

impl AuditLimits {
    /// As the node's quotas say at each line.
    pub fn of(limits: impl Fn() -> Arc<Limits> + Send + Sync + 'static) -> Self {
        Self {
            segment_bytes: 1 << 20,
            limits: Arc::new(limits),
        }
    }

    /// A file of a chain that may have so many bytes.
    pub(super) fn segment_bytes(&self, limit: u64) -> u64 {
        (limit / 8).max(MIN_SEGMENT_BYTES).min(self.segment_bytes)
    }
}

/// The most bytes of one chain.
pub(super) fn limit(limits: &Limits, owner: &Owner) -> u64 {
    let of = |tenant: &Tenant| limits.limit(tenant, Quota::AuditBytes);
    match owner {
        Some(tenant) => of(tenant),
        None => ADMINISTRATORS
            .parse()
            .map_or(u64::MAX, |tenant| of(&tenant)),
    }
}

/// The chain whose oldest file goes, where all have more than the node takes; of chains with their
/// bytes.
pub(super) fn fullest<'a>(
    limits: &Limits,
    chains: impl Iterator<Item = (&'a Owner, u64)>,
) -> Option<&'a Owner> {
    let most = limits.capacity.for_tenants(Quota::AuditBytes);
    let reserve = limits.capacity.of(Quota::AuditBytes).saturating_sub(most);
    let (mut together, mut fullest) = (0u64, None::<(&Owner, u64)>);
    for (owner, bytes) in chains {
        let counted = match owner {
            None => bytes.saturating_sub(reserve),
            Some(_) => bytes,
        };
        together = together.saturating_add(counted);
        if fullest.is_none_or(|(_, most)| counted > most) {
            fullest = Some((owner, counted));
        }
    }
    let (owner, counted) = fullest?;
    (together > most && counted > MIN_SEGMENT_BYTES).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fullest_of(node: u64, tenants: &[u64]) -> Option<usize> {
        let limits = Limits {
            capacity: Capacity {
                whole: [(Quota::AuditBytes, 100_000)].into(),
                reserve: 200,
            },
            set: Default::default(),
        };
        let mut chains = vec![(None, node)];
        for (n, bytes) in tenants.iter().enumerate() {
            chains.push((Some(format!("t{n}").parse().unwrap()), *bytes));
        }
        let found = fullest(&limits, chains.iter().map(|(owner, bytes)| (owner, *bytes)))?;
        chains.iter().position(|(owner, _)| owner == found)
    }

    #[test]
    fn of_too_much_audit_the_fullest_chain_gives_and_the_reserve_is_the_nodes() {
        assert_eq!(fullest_of(20_000, &[40_000, 40_000]), None);
        assert_eq!(fullest_of(20_000, &[30_000, 50_001]), Some(2));
        // Beyond its reserve the node's chain gives as any other does.
        assert_eq!(fullest_of(90_000, &[10_001]), Some(0));
        assert_eq!(fullest_of(60_000, &[40_001]), Some(1));
        assert_eq!(fullest_of(0, &[20_000, 20_000, 20_000, 20_001]), Some(4));
    }
}
