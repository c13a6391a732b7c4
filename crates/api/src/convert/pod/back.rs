// SPDX-License-Identifier: Apache-2.0
//! The status of a pod as another node says it: for a node that has pods there. What is malformed
//! is that node's mistake, and refused by its field as a caller's would be.

use model::error::{Error, Result, Within};
use model::label::Labels;
use model::name::Tenant;
use model::object::Kind;
use model::pod::qos;
use model::pod::status::{ContainerState, ContainerStatus, Event, MAX_EVENTS, Phase, PodStatus};
use model::status::Meta;

use super::spec;
use crate::convert::network::attached;
use crate::convert::object::object_ref;
use crate::convert::scalar::{enumeration, maybe_timestamp, parse, required};
use crate::convert::status::exit;
use crate::pod::v0 as wire;
use crate::runtime::v0 as runtime;

/// Checks a status. A pod that is gone has no spec, and so no status: see [`meta`].
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed.
pub fn status(own: &Tenant, message: wire::PodStatus) -> Result<PodStatus> {
    let spec = required("spec", message.spec).and_then(|it| spec::spec(it).within("spec"))?;
    let hosts = message.host_addresses.iter();
    let hosts = hosts.map(|text| parse("host_addresses", text));
    let inits = message.init_containers.into_iter();
    let containers = inits.chain(message.containers).map(container);
    let debug = message.debug_containers.into_iter().map(container);
    let events = message.events.into_iter().take(MAX_EVENTS).map(event);
    Ok(PodStatus {
        meta: meta(own, message.meta)?,
        phase: match enumeration("phase", message.phase)? {
            wire::Phase::Unspecified | wire::Phase::Pending => Phase::Pending,
            wire::Phase::Running => Phase::Running,
            wire::Phase::Succeeded => Phase::Succeeded,
            wire::Phase::Failed => Phase::Failed,
        },
        stopping: message.stopping,
        ready: message.ready,
        qos: qos::class(&spec),
        spec,
        sandbox_class: message.sandbox_class.into(),
        containers: containers.collect::<Result<_>>()?,
        debug: debug.collect::<Result<_>>()?,
        events: events.collect::<Result<_>>()?,
        network: message.network.map(attached).transpose()?,
        host_addresses: hosts.collect::<Result<_>>()?,
    })
}

/// Whose a status is.
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed.
pub fn meta(own: &Tenant, message: Option<runtime::Meta>) -> Result<Meta> {
    let message = required("meta", message)?;
    let reference = object_ref(own, message.r#ref).within("meta")?;
    let uid = reference.uid;
    Ok(Meta {
        tenant: reference.tenant,
        path: reference.path,
        uid: uid.ok_or_else(|| Error::invalid("meta.ref.uid", "must not be empty"))?,
        kind: reference.kind.unwrap_or(Kind::Cell),
        // What a node wrote on it is among them.
        labels: Labels::new(message.labels).within("meta.labels")?,
        generation: message.generation,
        revision: message.revision,
        created: maybe_timestamp("meta.created", message.created.as_ref())?.unwrap_or_default(),
    })
}

fn event(message: wire::Event) -> Result<Event> {
    Ok(Event {
        at: maybe_timestamp("events.time", message.time.as_ref())?.unwrap_or_default(),
        container: message.container,
        message: message.message,
        count: message.count,
    })
}

fn container(message: wire::ContainerStatus) -> Result<ContainerStatus> {
    use wire::container_status::State;
    let state = match enumeration("containers.state", message.state)? {
        State::Unspecified | State::Waiting => ContainerState::Waiting,
        State::Running => ContainerState::Running,
        State::BackingOff => ContainerState::BackingOff,
        State::Ended => ContainerState::Ended,
    };
    Ok(ContainerStatus {
        name: message.name,
        state,
        restarts: message.restarts,
        started: message.started,
        ready: message.ready,
        last_exit: message.last_exit.map(exit).transpose()?,
        next_start: maybe_timestamp("containers.next_start", message.next_start.as_ref())?,
        message: message.message,
        termination_message: message.termination_message,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::exit::{Exit, How, Rusage};
    use model::name::Uid;
    use model::network::{Attached, Interface, Protocol, PublishedPort};
    use model::pod::qos::Qos;
    use model::pod::spec::{Container, Draft};
    use model::time::Timestamp;

    use super::super::to_status;
    use super::*;

    fn ended() -> ContainerStatus {
        let exit = Exit {
            how: How::Signal(9),
            oom_killed: true,
            oom_kills: Some(2),
            core_dumped: true,
            started: Some(Timestamp::default()),
            finished: None,
            rusage: Some(Rusage {
                user_time: Duration::from_millis(7),
                system_time: Duration::ZERO,
                max_rss_bytes: 1,
                minor_faults: 2,
                major_faults: 3,
                voluntary_switches: 4,
                involuntary_switches: 5,
            }),
        };
        ContainerStatus {
            name: "app".to_owned(),
            state: ContainerState::BackingOff,
            restarts: 3,
            started: true,
            ready: true,
            last_exit: Some(exit),
            next_start: Some(Timestamp::default()),
            message: "waits".to_owned(),
            termination_message: "bye".to_owned(),
        }
    }

    fn whole() -> PodStatus {
        let named = |name: &str| Container {
            name: name.to_owned(),
            entrypoint: vec!["true".to_owned()],
            ..Container::default()
        };
        let draft = Draft {
            init_containers: vec![named("init")],
            containers: vec![named("app")],
            ..Draft::default()
        };
        let init = ContainerStatus {
            name: "init".to_owned(),
            state: ContainerState::Ended,
            ..ended()
        };
        PodStatus {
            meta: Meta {
                tenant: "acme".parse().unwrap(),
                path: "web".parse().unwrap(),
                uid: Uid([7; 16]),
                kind: Kind::Cell,
                labels: Labels::new([("a".to_owned(), "b".to_owned())].into()).unwrap(),
                generation: 2,
                revision: 3,
                created: Timestamp::default(),
            },
            spec: draft.try_into().unwrap(),
            phase: Phase::Running,
            stopping: true,
            ready: true,
            qos: Qos::BestEffort,
            sandbox_class: "cell".into(),
            containers: vec![init, ended()],
            debug: vec![ended()],
            events: vec![Event {
                at: Timestamp::default(),
                container: "app".to_owned(),
                message: "started".to_owned(),
                count: 2,
            }],
            network: Some(Attached {
                interfaces: vec![Interface {
                    name: "eth0".to_owned(),
                    addresses: vec!["fd00::2".parse().unwrap()],
                    gateways: vec!["fd00::1".parse().unwrap()],
                    mac: "02:00:00:00:00:01".to_owned(),
                    cni: String::new(),
                }],
                ports: vec![PublishedPort {
                    protocol: Protocol::Udp,
                    address: None,
                    host_port: 53,
                    port: 5353,
                }],
            }),
            host_addresses: vec!["10.0.0.1".parse().unwrap()],
        }
    }

    #[test]
    fn what_a_node_says_of_a_pod_is_read_as_it_was_meant() {
        let own = "other".parse().unwrap();
        assert_eq!(status(&own, to_status(&whole())).unwrap(), whole());
    }

    #[test]
    fn what_is_malformed_is_refused_by_its_field() {
        let own = "other".parse().unwrap();
        let mut message = to_status(&whole());
        message.spec = None;
        let refused = status(&own, message).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("spec"));
        let mut message = to_status(&whole());
        let nameless = message.meta.as_mut().and_then(|it| it.r#ref.as_mut());
        nameless.unwrap().uid.clear();
        let refused = status(&own, message).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("meta.ref.uid"));
    }
}
