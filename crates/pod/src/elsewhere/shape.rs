// SPDX-License-Identifier: Apache-2.0
//! What this node shows of a pod elsewhere, of what the other daemon says of it. Pure.

use model::network::Attached;
use model::pod::qos;
use model::pod::spec::Container;
use model::pod::status::{ContainerState, ContainerStatus, Event, MAX_EVENTS, Phase, PodStatus};

use crate::kept::Kept;
use crate::task::notes;

/// The longest message of a container, in characters.
const MESSAGE: usize = 1024;
/// The most interfaces of a pod that are told, and the most addresses of its node.
const INTERFACES: usize = 32;
/// The longest last word of a container, in bytes, as of one here.
const LAST_WORD: usize = 4096;

/// What this node tells of a pod is bounded by what it has asked for, whatever the other daemon
/// says: it may be a guest that a workload has taken over.
pub(super) fn shaped(kept: &Kept, status: &PodStatus) -> PodStatus {
    let of = |list: &[ContainerStatus], container: &Container| {
        let told = list.iter().find(|it| it.name == container.name);
        told.map_or_else(|| unseen(container), bounded)
    };
    let all = kept.spec.all();
    let added = kept.debug.iter().map(|debug| &debug.container);
    PodStatus {
        meta: status.meta.clone(),
        spec: kept.spec.clone(),
        phase: status.phase,
        stopping: status.stopping,
        ready: status.ready,
        qos: qos::class(&kept.spec),
        sandbox_class: status.sandbox_class.clone(),
        containers: all.map(|it| of(&status.containers, it)).collect(),
        debug: added.map(|it| of(&status.debug, it)).collect(),
        events: Vec::new(),
        network: status.network.as_ref().map(|network| Attached {
            interfaces: network
                .interfaces
                .iter()
                .take(INTERFACES)
                .cloned()
                .collect(),
            ports: Vec::new(),
        }),
        host_addresses: status
            .host_addresses
            .iter()
            .take(INTERFACES)
            .copied()
            .collect(),
    }
}

fn bounded(container: &ContainerStatus) -> ContainerStatus {
    let word = &container.termination_message;
    let end = word.floor_char_boundary(LAST_WORD);
    ContainerStatus {
        message: notes::plain(&container.message, MESSAGE),
        termination_message: word.get(..end).unwrap_or_default().to_owned(),
        ..container.clone()
    }
}

pub(super) fn plain(event: &Event) -> Event {
    Event {
        container: notes::plain(&event.container, notes::LONGEST),
        message: notes::plain(&event.message, notes::LONGEST),
        ..event.clone()
    }
}

/// Of a container, before the other daemon has said anything.
pub(super) fn unseen(container: &Container) -> ContainerStatus {
    ContainerStatus {
        name: container.name.clone(),
        state: ContainerState::Waiting,
        restarts: 0,
        started: false,
        ready: false,
        last_exit: None,
        next_start: None,
        message: String::new(),
        termination_message: String::new(),
    }
}

/// A pod that was there and is no more: what ran there has ended, and how isn't known.
pub(super) fn lost(last: PodStatus) -> PodStatus {
    let ended = |container: ContainerStatus| ContainerStatus {
        state: ContainerState::Ended,
        started: false,
        ready: false,
        next_start: None,
        ..container
    };
    PodStatus {
        phase: Phase::Failed,
        ready: false,
        containers: last.containers.into_iter().map(ended).collect(),
        debug: last.debug.into_iter().map(ended).collect(),
        ..last
    }
}

/// The last events of both, in their order.
pub(super) fn together(theirs: &[Event], ours: Vec<Event>) -> Vec<Event> {
    let mut all = [theirs, &ours].concat();
    all.sort_by_key(|event| event.at);
    let older = all.len().saturating_sub(MAX_EVENTS);
    all.split_off(older)
}

#[cfg(test)]
mod tests {
    use model::label::Labels;
    use model::name::Uid;
    use model::object::Kind;
    use model::pod::PodSpec;
    use model::pod::spec::Draft;
    use model::status::Meta;

    use super::*;
    use crate::task::first_status;

    fn spec() -> PodSpec {
        let container = Container {
            name: "app".to_owned(),
            entrypoint: vec!["true".to_owned()],
            ..Container::default()
        };
        let draft = Draft {
            containers: vec![container],
            ..Draft::default()
        };
        draft.try_into().unwrap()
    }

    fn meta(path: &str) -> Meta {
        Meta {
            tenant: "acme".parse().unwrap(),
            path: path.parse().unwrap(),
            uid: Uid([1; 16]),
            kind: Kind::Cell,
            labels: Labels::default(),
            generation: 1,
            revision: 1,
            created: model::time::Timestamp::default(),
        }
    }

    fn container(name: &str, text: &str) -> ContainerStatus {
        ContainerStatus {
            name: name.to_owned(),
            state: ContainerState::Running,
            message: text.to_owned(),
            termination_message: text.to_owned(),
            ..unseen(&Container::default())
        }
    }

    #[test]
    fn what_a_daemon_says_that_was_taken_over_is_bounded_by_what_was_asked_for() {
        let kept = Kept::new(spec());
        let long = "\u{1b}[2J\u{e9}".repeat(100_000);
        let others = (0..100_000).map(|i| container(&format!("c{i}"), &long[..8]));
        let status = PodStatus {
            containers: others.chain([container("app", &long)]).collect(),
            debug: vec![container("app", &long); 100],
            ..first_status(&meta("theirs"), &spec(), "cell".into())
        };
        let shaped = shaped(&kept, &status);
        assert_eq!(shaped.debug.len(), 0);
        let [app] = shaped.containers.as_slice() else {
            panic!("{} containers", shaped.containers.len());
        };
        assert_eq!(app.state, ContainerState::Running);
        assert_eq!(app.message.chars().count(), MESSAGE);
        assert!(!app.message.contains('\u{1b}'));
        assert!(app.termination_message.len() <= LAST_WORD);
        let event = plain(&Event {
            at: model::time::Timestamp::default(),
            container: long.clone(),
            message: long,
            count: 1,
        });
        assert_eq!(event.message.chars().count(), notes::LONGEST);
        assert!(!event.message.contains('\u{1b}'));
    }

    #[test]
    fn what_a_container_there_has_not_said_is_shown_as_waiting() {
        let kept = Kept::new(spec());
        let status = first_status(&meta("web"), &spec(), "cell".into());
        let shaped = shaped(&kept, &status);
        assert_eq!(shaped.containers[0].name, "app");
        assert_eq!(shaped.containers[0].state, ContainerState::Waiting);
    }
}
