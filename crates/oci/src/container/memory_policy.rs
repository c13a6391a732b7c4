// SPDX-License-Identifier: Apache-2.0
//! `linux.memoryPolicy`: from which NUMA nodes the memory of a container's processes comes. It is
//! kept by exec, and children have it too.

use kernel::sched;

use crate::config::linux::MemoryPolicy;
use crate::error::{Doing, Result, refuse};

/// The modes of `linux/mempolicy.h`, by their numbers, and whether nodes go with them.
pub(crate) const MODES: [(&str, u32, Nodes); 7] = [
    ("MPOL_DEFAULT", 0, Nodes::None),
    ("MPOL_PREFERRED", 1, Nodes::Any),
    ("MPOL_BIND", 2, Nodes::Some),
    ("MPOL_INTERLEAVE", 3, Nodes::Some),
    ("MPOL_LOCAL", 4, Nodes::None),
    ("MPOL_PREFERRED_MANY", 5, Nodes::Some),
    ("MPOL_WEIGHTED_INTERLEAVE", 6, Nodes::Some),
];

/// The flags of modes.
pub(crate) const FLAGS: [(&str, u32); 3] = [
    ("MPOL_F_STATIC_NODES", 1 << 15),
    ("MPOL_F_RELATIVE_NODES", 1 << 14),
    ("MPOL_F_NUMA_BALANCING", 1 << 13),
];

/// Linux has 1,024 nodes at most.
const MOST: u32 = 1024;

/// How many nodes a mode takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nodes {
    None,
    Any,
    Some,
}

/// A policy, as the kernel takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Policy {
    mode: u32,
    nodes: Vec<u8>,
}

impl Policy {
    /// Of the configuration's words.
    pub(crate) fn of(words: &MemoryPolicy) -> Result<Policy> {
        let mode = MODES.iter().find(|(word, ..)| *word == words.mode);
        let Some((_, mut mode, takes)) = mode.copied() else {
            return refuse(format!("invalid memory policy mode {:?}", words.mode));
        };
        let nodes = sched::parse_cpu_list(words.nodes.trim())
            .filter(|nodes| nodes.last().is_none_or(|last| *last < MOST));
        let Some(nodes) = nodes else {
            return refuse(format!(
                "invalid memory policy nodes {:?}: a list of numbers below {MOST}",
                words.nodes
            ));
        };
        match (takes, nodes.len()) {
            (Nodes::None, count @ 1..) => {
                return refuse(format!(
                    "memory policy mode requires 0 nodes but got {count}"
                ));
            }
            (Nodes::Some, 0) => {
                return refuse("memory policy mode requires at least one node but got 0");
            }
            _ => {}
        }
        for flag in &words.flags {
            let Some((_, bit)) = FLAGS.iter().find(|(word, _)| word == flag) else {
                return refuse(format!("invalid memory policy flag {flag:?}"));
            };
            mode |= bit;
        }
        let nodes = sched::affinity_mask(&nodes);
        Ok(Policy { mode, nodes })
    }

    /// Makes it the calling process's.
    pub(crate) fn set(&self) -> Result<()> {
        sched::set_memory_policy(self.mode, &self.nodes).doing("linux.memoryPolicy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mode: &str, nodes: &str, flags: &[&str]) -> Result<Policy> {
        Policy::of(&MemoryPolicy {
            mode: mode.to_owned(),
            nodes: nodes.to_owned(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        })
    }

    #[test]
    fn a_mode_its_flags_and_its_nodes_are_the_kernel_s_numbers() {
        let policy = of("MPOL_BIND", "0,9", &["MPOL_F_STATIC_NODES"]).unwrap();
        assert_eq!((policy.mode, policy.nodes), (2 | 1 << 15, vec![1, 2]));
        assert!(of("MPOL_PREFERRED", "", &[]).is_ok());
        assert!(of("MPOL_DEFAULT", "", &[]).is_ok());
    }

    #[test]
    fn what_the_kernel_would_refuse_is_named() {
        for (mode, nodes, flags) in [
            ("", "0", [].as_slice()),
            ("BIND", "0", &[]),
            ("MPOL_BIND", "", &[]),
            ("MPOL_BIND", "1024", &[]),
            ("MPOL_BIND", "0-9876543210", &[]),
            ("MPOL_LOCAL", "0", &[]),
            ("MPOL_BIND", "0", &["MPOL_F_MOON"]),
        ] {
            let refused = of(mode, nodes, flags).unwrap_err();
            assert!(refused.to_string().contains("memory policy"), "{refused}");
        }
    }
}
