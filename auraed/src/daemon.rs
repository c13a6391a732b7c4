// SPDX-License-Identifier: Apache-2.0
//! The daemon as a whole, as the `Node` service sees it: facts, configuration, reload, shutdown.
//! `serve` builds it from the running subsystems; it owns none of their state.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use identity::{Identity, Lifetimes, Permit};
use image::node::Images;
use init::protocol::{MAX_SEALED, PowerMode, Role, Welcome};
use model::error::{Error, Reason};
use model::quota::{Limits, Quota};
use observe::{Logs, LogsConfig};
use runtime::{Bounds, NodeInit, Runtime};
use schedule::unit::Units;
use store::Store;
use tenants::Tenants;

use crate::capacity;
use crate::cell_network::CellNetwork;
use crate::config::{self, Config, Loaded, Sources, is_reloadable};
use crate::elsewhere::Links;
use crate::first;
use crate::host;
use crate::reserve;
use crate::rpc::deadline::DefaultDeadline;
use crate::rpc::node::{
    ConfigLeaf, NodeFacts, NodeLimits, NodePort, Reloaded, ShutdownMode, Unowned,
};
use crate::telemetry::LogLevel;
use crate::unowned;

/// The running subsystems, for calls about the daemon as a whole.
pub(crate) struct Daemon {
    pub(crate) sources: Sources,
    pub(crate) loaded: Mutex<Loaded>,
    /// Held for a whole reload: of two at once the later file is in force.
    pub(crate) reloading: tokio::sync::Mutex<()>,
    pub(crate) name: String,
    pub(crate) started: SystemTime,
    pub(crate) controllers: Vec<String>,
    pub(crate) welcome: Welcome,
    pub(crate) node_init: NodeInit,
    pub(crate) identity: Arc<Identity>,
    pub(crate) logs: Logs,
    pub(crate) store: Store,
    pub(crate) images: Images,
    /// Daemons on which pods of this node run.
    pub(crate) elsewhere: Links,
    pub(crate) runtime: Runtime,
    pub(crate) units: Units,
    pub(crate) cell_network: CellNetwork,
    pub(crate) tenants: Tenants,
    pub(crate) deadline: DefaultDeadline,
    pub(crate) log_level: LogLevel,
}

impl Daemon {
    /// The configuration as of now.
    fn config(&self) -> Config {
        self.loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .config
            .clone()
    }

    /// Reads the configuration again and uses what can be changed; an error changes nothing.
    pub(crate) async fn reread(&self) -> Result<Reloaded, Error> {
        let _one_at_a_time = self.reloading.lock().await;
        let new = self.sources.load().map_err(|e| {
            Error::new(Reason::InvalidField, e.to_string())
                .hint("nothing was changed; correct the configuration and reload again")
        })?;
        let (changed, needs_restart) = self
            .loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .changes(&new);
        // What may fail comes first.
        self.logs.configure(logs_config(&new.config)).await?;
        self.put_in_force(&new.config);
        let mut kept = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take_reloadable(new);
        tracing::info!(?changed, ?needs_restart, "configuration read again");
        Ok(Reloaded {
            changed,
            needs_restart,
        })
    }

    /// Hands every key that `is_reloadable` to the subsystem that reads it, but those of the logs.
    fn put_in_force(&self, config: &Config) {
        self.identity.set_lifetimes(lifetimes(config));
        self.log_level.set(&config.node.log_level);
        self.runtime.set_bounds(bounds(config));
        self.deadline.set(config.api.deadline.0);
        let capacity = capacity::of(config);
        match reserve::base() {
            Ok(base) => reserve::hold(&base, &capacity),
            Err(error) => tracing::warn!(%error, "the node's reserve stays as it was"),
        }
        self.tenants.set_capacity(capacity);
    }

    /// Asks init to bring the node down within the bound; without one within its own, or what units
    /// need.
    pub(crate) async fn go_down(&self, mode: ShutdownMode, bound: Option<Duration>) {
        let mode = match mode {
            ShutdownMode::PowerOff => PowerMode::PowerOff,
            ShutdownMode::Reboot => PowerMode::Reboot,
            ShutdownMode::Halt => PowerMode::Halt,
        };
        self.node_init.shutdown(mode, bound).await;
    }

    fn features(&self) -> Vec<(String, Result<(), String>)> {
        let words = |f: &init::protocol::Failure| {
            let error = std::io::Error::from_raw_os_error(f.errno);
            format!("{}: {error}", f.detail)
        };
        let isolation = self.welcome.isolation.as_ref().map(|_| ()).map_err(words);
        let controller = |name: &'static str| {
            let there = self.controllers.iter().any(|c| c == name);
            there.then_some(()).ok_or_else(|| {
                format!("the cgroup v2 controller {name} is not available to the node")
            })
        };
        let own = [
            ("cells.isolated", isolation),
            ("cells.network", self.cell_network.state()),
            ("reserve.memory", memory_reserve()),
            ("watchdog", self.watchdog()),
            ("limits.cpu", controller("cpu")),
            ("limits.memory", controller("memory")),
            ("limits.pids", controller("pids")),
            ("limits.io", controller("io")),
        ];
        let own = own.map(|(name, state)| (name.to_owned(), state));
        let classes = self.elsewhere.values();
        let classes = classes.map(|link| (format!("sandboxes.{}", link.class()), link.state()));
        own.into_iter().chain(classes).collect()
    }
}

impl Daemon {
    /// Whether the machine's watchdog counts, and node-init gives it signs.
    fn watchdog(&self) -> Result<(), String> {
        let settings = self.config().watchdog;
        if self.welcome.role != Role::Machine {
            return Err("the daemon's init is not the machine's PID 1".to_owned());
        }
        if settings.timeout.0.is_zero() {
            return Err("watchdog.timeout is 0s".to_owned());
        }
        host::watchdog_counts(&settings.device)
    }
}

/// Whether the kernel keeps the node's memory for it.
fn memory_reserve() -> Result<(), String> {
    let base = reserve::base().map_err(|e| format!("{e:#}"))?;
    reserve::protection(&base)
}

#[tonic::async_trait]
impl NodePort for Daemon {
    async fn facts(&self, _permit: Permit) -> NodeFacts {
        let (total, available) = host::memory().unwrap_or_default();
        let broken = [
            self.store.health().degraded(),
            self.identity.audit().health().degraded(),
            self.images.degraded(),
        ];
        NodeFacts {
            name: self.name.clone(),
            trust_domain: self.identity.trust_domain().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: match self.welcome.role {
                Role::Machine => "pid1",
                Role::Container => "container",
                Role::Service => "service",
            },
            kernel: host::kernel_release(),
            machine_id: host::machine_id(),
            boot_id: host::boot_id(),
            booted: host::booted(),
            started: Some(self.started),
            daemon_starts: self.welcome.daemon_starts,
            controllers: self.controllers.clone(),
            features: self.features(),
            limits: limits(&self.config(), &self.tenants.limits()),
            cpus: host::cpus(),
            memory_bytes: total,
            memory_available_bytes: available,
            degraded: broken.into_iter().flatten().collect(),
        }
    }

    fn config(&self, _permit: Permit) -> Vec<ConfigLeaf> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let leaf = |(key, value, origin): (&str, String, &config::Origin)| ConfigLeaf {
            key: key.to_owned(),
            value,
            origin: origin.to_string(),
            reloadable: is_reloadable(key),
        };
        loaded.entries().map(leaf).collect()
    }

    async fn unowned(&self, permit: Permit) -> Result<Unowned, Error> {
        unowned::list(&self.runtime, &self.units, &permit).await
    }

    async fn reload(&self, _permit: Permit) -> Result<Reloaded, Error> {
        self.reread().await
    }

    async fn shutdown(
        &self,
        permit: Permit,
        mode: ShutdownMode,
        bound: Option<Duration>,
    ) -> Result<Duration, Error> {
        let longest = match bound {
            Some(bound) => bound,
            None => first::bound(self.config().shutdown.bound.0, &self.units).await,
        };
        tracing::warn!(
            actor = permit.actor(),
            ?mode,
            ?longest,
            "the node goes down"
        );
        self.go_down(mode, bound).await;
        Ok(longest)
    }
}

fn limits(config: &Config, of_tenants: &Limits) -> NodeLimits {
    let limits = &config.limits;
    let connections = of_tenants.capacity.of(Quota::Connections);
    let per_tenant = Quota::Connections.default_amount().of(connections);
    NodeLimits {
        cells: limits.cells,
        executables: limits.executables,
        connections: limits.connections,
        connections_per_tenant: u32::try_from(per_tenant).unwrap_or(u32::MAX),
        message_bytes: limits.message.0,
        record_bytes: MAX_SEALED as u64,
    }
}

/// The lifetimes of certificates, for `identity`.
pub(crate) fn lifetimes(config: &Config) -> Lifetimes {
    Lifetimes {
        node: config.identity.node_lifetime.0,
        user: config.identity.user_lifetime.0,
        administrator: config.identity.administrator_lifetime.0,
    }
}

/// The bounds of objects, for `runtime`.
pub(crate) fn bounds(config: &Config) -> Bounds {
    Bounds {
        finished_per_tenant: config.runtime.finished_max_count as usize,
        finished_age: config.runtime.finished_max_age.0,
    }
}

/// The retention of logs, for `observe`.
pub(crate) fn logs_config(config: &Config) -> LogsConfig {
    LogsConfig {
        max_bytes: config.logs.max_size.0,
        max_age: config.logs.max_age.0,
        node_max_bytes: config.logs.node_max_size.0,
        ..LogsConfig::default()
    }
}
