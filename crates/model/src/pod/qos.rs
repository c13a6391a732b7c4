// SPDX-License-Identifier: Apache-2.0
//! Classes of service, and what follows from them. Pure; Kubernetes' "Pod Quality of Service
//! Classes" and "Node out of memory behavior" say how.

use serde::{Deserialize, Serialize};

use super::spec::{Needs, PodSpec};

/// The class of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Qos {
    /// Every container has limits, and requests the same.
    Guaranteed,
    /// Neither of the others.
    Burstable,
    /// No container asks for anything.
    BestEffort,
}

/// The class of a pod.
pub fn class(spec: &PodSpec) -> Qos {
    let mut all = spec.all().map(|container| container.needs);
    if spec.all().all(|it| it.needs == Needs::default()) {
        return Qos::BestEffort;
    }
    let guaranteed = |needs: Needs| {
        let cpu = needs.cpu_limit_millis.is_some() && needs.cpu_request() == needs.cpu_limit_millis;
        let bytes = needs.memory_limit_bytes;
        cpu && bytes.is_some() && needs.memory_request() == bytes
    };
    match all.all(guaranteed) {
        true => Qos::Guaranteed,
        false => Qos::Burstable,
    }
}

/// Which container's processes the OOM killer takes first: from 0 (last) to 1000, of a node with so
/// much memory. Kubernetes' negative values for the guaranteed would put a tenant's programs before
/// the node's own; within its tenant the order is the same.
pub fn oom_score_adj(class: Qos, needs: &Needs, node_bytes: u64) -> i32 {
    match class {
        Qos::Guaranteed => 0,
        Qos::BestEffort => 1000,
        Qos::Burstable => {
            let request = needs.memory_request().unwrap_or(0);
            let share = request.saturating_mul(1000) / node_bytes.max(1);
            let share = i32::try_from(share).unwrap_or(i32::MAX);
            1000_i32.saturating_sub(share).clamp(3, 999)
        }
    }
}

/// `cpu.weight` of so many thousandths of a CPU: 1 CPU is 39, as Kubernetes makes it of its shares
/// (1024 of a CPU, which `cgroup` v2 has from 1 to 10,000).
pub fn cpu_weight(millis: u64) -> u64 {
    let shares = (millis.saturating_mul(1024) / 1000).clamp(2, 262_144);
    1 + ((shares - 2) * 9999) / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::spec::{Container, Draft};

    fn pod(needs: &[Needs]) -> PodSpec {
        let containers = needs.iter().enumerate().map(|(i, needs)| Container {
            name: format!("c{i}"),
            entrypoint: vec!["true".to_owned()],
            needs: *needs,
            ..Container::default()
        });
        let draft = Draft {
            containers: containers.collect(),
            ..Draft::default()
        };
        draft.try_into().unwrap()
    }

    #[test]
    fn classes_are_kubernetes_own() {
        let none = Needs::default();
        let limits = Needs {
            cpu_limit_millis: Some(500),
            memory_limit_bytes: Some(1 << 20),
            ..none
        };
        let less = Needs {
            memory_request_bytes: Some(1 << 19),
            ..limits
        };
        let memory = Needs {
            memory_limit_bytes: Some(1 << 20),
            ..none
        };
        assert_eq!(class(&pod(&[none, none])), Qos::BestEffort);
        assert_eq!(class(&pod(&[limits, limits])), Qos::Guaranteed);
        assert_eq!(class(&pod(&[limits, none])), Qos::Burstable);
        assert_eq!(class(&pod(&[less])), Qos::Burstable);
        assert_eq!(class(&pod(&[memory])), Qos::Burstable);
    }

    #[test]
    fn what_asks_for_more_is_killed_later() {
        let needs = |bytes| Needs {
            memory_request_bytes: Some(bytes),
            ..Needs::default()
        };
        let of = |bytes| oom_score_adj(Qos::Burstable, &needs(bytes), 1000);
        assert_eq!((of(0), of(500), of(1000), of(5000)), (999, 500, 3, 3));
        assert_eq!(oom_score_adj(Qos::BestEffort, &needs(0), 0), 1000);
    }

    #[test]
    fn weights_are_in_the_kernels_range() {
        assert_eq!((cpu_weight(0), cpu_weight(1000)), (1, 39));
        assert_eq!(cpu_weight(u64::MAX), 10_000);
    }
}
