// SPDX-License-Identifier: Apache-2.0
//! The `Node` service on the wire. Its calls are about the daemon as a whole, which it reaches
//! through [`NodePort`]; `daemon` implements that.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::action::node as action;
use api::convert::scalar::{enumeration, maybe_duration, to_duration};
use api::node::v0 as wire;
use api::node::v0::node_server::Node as Service;
use api::status::to_status;
use identity::{Identity, Permit, Target};
use model::error::Error;
use tonic::{Request, Response, Status};

use super::caller::Caller;

/// How the node goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShutdownMode {
    PowerOff,
    Reboot,
    Halt,
}

/// The facts of a node that `Node.Get` answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    pub(crate) trust_domain: String,
    pub(crate) version: String,
    /// `pid1`, `service` or `container`.
    pub(crate) role: &'static str,
    pub(crate) kernel: String,
    pub(crate) machine_id: String,
    pub(crate) boot_id: String,
    pub(crate) booted: Option<SystemTime>,
    pub(crate) started: Option<SystemTime>,
    pub(crate) daemon_starts: u64,
    pub(crate) controllers: Vec<String>,
    /// Each feature's name, and the reason where it isn't available.
    pub(crate) features: Vec<(String, Result<(), String>)>,
    pub(crate) limits: NodeLimits,
    pub(crate) cpus: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_available_bytes: u64,
    pub(crate) degraded: Vec<String>,
}

/// The configured bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeLimits {
    pub(crate) cells: u32,
    pub(crate) executables: u32,
    pub(crate) connections: u32,
    pub(crate) connections_per_tenant: u32,
    pub(crate) message_bytes: u64,
    pub(crate) record_bytes: u64,
}

/// One leaf of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct ConfigLeaf {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) origin: String,
    pub(crate) reloadable: bool,
}

/// The keys that a reload changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reloaded {
    pub(crate) changed: Vec<String>,
    pub(crate) needs_restart: Vec<String>,
}

/// Processes that belong to no object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unowned {
    pub(crate) processes: Vec<UnownedProcess>,
    /// There are more.
    pub(crate) truncated: bool,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnownedProcess {
    pub(crate) pid: u32,
    /// From the root of the hierarchy.
    pub(crate) cgroup: String,
    pub(crate) command: String,
}

/// The functions of the daemon that the service calls. Each call has its permit.
#[tonic::async_trait]
pub(crate) trait NodePort: Send + Sync + 'static {
    /// The node's facts, read now.
    async fn facts(&self, permit: Permit) -> NodeFacts;
    /// Every leaf of the effective configuration, with its source.
    fn config(&self, permit: Permit) -> Vec<ConfigLeaf>;
    /// The processes that belong to no object.
    async fn unowned(&self, permit: Permit) -> Result<Unowned, Error>;
    /// Reads the configuration again.
    async fn reload(&self, permit: Permit) -> Result<Reloaded, Error>;
    /// Begins to go down; answers how long it takes at most.
    async fn shutdown(
        &self,
        permit: Permit,
        mode: ShutdownMode,
        bound: Option<Duration>,
    ) -> Result<Duration, Error>;
}

/// The service `Node`.
pub(super) struct NodeService {
    pub(super) identity: Arc<Identity>,
    pub(super) port: Arc<dyn NodePort>,
}

type Answer<T> = Result<Response<T>, Status>;

impl NodeService {
    async fn permit<T>(
        &self,
        request: &Request<T>,
        action: &'static str,
    ) -> Result<Permit, Status> {
        let caller = Caller::of(&self.identity, request, action)?;
        caller.permit(Target::own()).await
    }
}

#[tonic::async_trait]
impl Service for NodeService {
    async fn get(&self, request: Request<wire::GetRequest>) -> Answer<wire::NodeStatus> {
        let permit = self.permit(&request, action::GET).await?;
        Ok(Response::new(to_status_message(
            self.port.facts(permit).await,
        )))
    }

    async fn get_config(
        &self,
        request: Request<wire::GetConfigRequest>,
    ) -> Answer<wire::GetConfigResponse> {
        let permit = self.permit(&request, action::GET_CONFIG).await?;
        let values = self
            .port
            .config(permit)
            .into_iter()
            .map(|leaf| wire::ConfigValue {
                key: leaf.key,
                value: leaf.value,
                origin: leaf.origin,
                reloadable: leaf.reloadable,
            });
        Ok(Response::new(wire::GetConfigResponse {
            values: values.collect(),
        }))
    }

    async fn list_unowned(
        &self,
        request: Request<wire::ListUnownedRequest>,
    ) -> Answer<wire::ListUnownedResponse> {
        let permit = self.permit(&request, action::LIST_UNOWNED).await?;
        let unowned = self.port.unowned(permit).await.map_err(to_status)?;
        let processes = unowned
            .processes
            .into_iter()
            .map(|it| wire::UnownedProcess {
                pid: it.pid,
                cgroup: it.cgroup,
                command: it.command,
            });
        Ok(Response::new(wire::ListUnownedResponse {
            processes: processes.collect(),
            truncated: unowned.truncated,
        }))
    }

    async fn reload(&self, request: Request<wire::ReloadRequest>) -> Answer<wire::ReloadResponse> {
        let permit = self.permit(&request, action::RELOAD).await?;
        let reloaded = self.port.reload(permit).await.map_err(to_status)?;
        Ok(Response::new(wire::ReloadResponse {
            changed: reloaded.changed,
            needs_restart: reloaded.needs_restart,
        }))
    }

    async fn shutdown(
        &self,
        request: Request<wire::ShutdownRequest>,
    ) -> Answer<wire::ShutdownResponse> {
        let caller = Caller::of(&self.identity, &request, action::SHUTDOWN)?;
        let message = request.into_inner();
        let mode = mode(message.mode).map_err(to_status)?;
        let bound = maybe_duration("bound", message.bound.as_ref()).map_err(to_status)?;
        let permit = caller.permit(Target::own()).await?;
        let bound = self
            .port
            .shutdown(permit, mode, bound)
            .await
            .map_err(to_status)?;
        Ok(Response::new(wire::ShutdownResponse {
            bound: Some(to_duration(bound)),
        }))
    }
}

fn mode(number: i32) -> Result<ShutdownMode, Error> {
    use wire::shutdown_request::Mode;
    Ok(match enumeration("mode", number)? {
        Mode::Unspecified => {
            let problem = "must be POWER_OFF, REBOOT or HALT";
            return Err(Error::invalid("mode", problem));
        }
        Mode::PowerOff => ShutdownMode::PowerOff,
        Mode::Reboot => ShutdownMode::Reboot,
        Mode::Halt => ShutdownMode::Halt,
    })
}

fn moment(time: SystemTime) -> Option<prost_types::Timestamp> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).ok()?,
        nanos: i32::try_from(since.subsec_nanos()).ok()?,
    })
}

fn to_status_message(facts: NodeFacts) -> wire::NodeStatus {
    let feature = |(name, available): (String, Result<(), String>)| wire::Feature {
        name: name.to_owned(),
        available: available.is_ok(),
        reason: available.err().unwrap_or_default(),
    };
    wire::NodeStatus {
        name: facts.name,
        trust_domain: facts.trust_domain,
        version: facts.version,
        role: facts.role.to_owned(),
        kernel: facts.kernel,
        machine_id: facts.machine_id,
        boot_id: facts.boot_id,
        booted: facts.booted.and_then(moment),
        started: facts.started.and_then(moment),
        daemon_starts: facts.daemon_starts,
        controllers: facts.controllers,
        features: facts.features.into_iter().map(feature).collect(),
        limits: Some(to_limits(facts.limits)),
        cpus: facts.cpus,
        memory_bytes: facts.memory_bytes,
        memory_available_bytes: facts.memory_available_bytes,
        services: super::SERVICES.iter().map(ToString::to_string).collect(),
        degraded: facts.degraded,
    }
}

fn to_limits(limits: NodeLimits) -> wire::Limits {
    wire::Limits {
        cells: limits.cells,
        executables: limits.executables,
        connections: limits.connections,
        connections_per_tenant: limits.connections_per_tenant,
        message_bytes: limits.message_bytes,
        record_bytes: limits.record_bytes,
    }
}
