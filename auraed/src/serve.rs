// SPDX-License-Identifier: Apache-2.0
//! The daemon: from an inherited socket to an open API, and back. The order is ARCHITECTURE.md's
//! "How a daemon comes back": lock, store, init, identity, logs, workloads, and only then the
//! listeners.
//!
//! Everything here may be killed at any instant. A graceful stop (SIGTERM) differs from that only
//! in the calls that are still answered: workloads go on either way.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use identity::audit::{AuditHeadSink, AuditLimits, Hash, Head};
use identity::{Identity, Options as IdentityOptions};
use image::node::Images;
use init::protocol::{PowerMode, Role, Welcome};
use model::quota::Quota;
use observe::Logs;
use observe::journal::{Journal, Words};
use pod::Pods;
use runtime::ports::Neighbours;
use runtime::{Adoption, InitState, NodeInit, Runtime, Settings};
use schedule::Schedules;
use schedule::unit::Units;
use store::{StateLock, Store};
use tenants::{Pool, Tenants};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::Common;
use crate::authenticator::Authenticator;
use crate::cell_network::CellNetwork;
use crate::config::{Config, Loaded, Then};
use crate::daemon::{Daemon, bounds, lifetimes, logs_config};
use crate::elsewhere::Links;
use crate::hooks::NodeHooks;
use crate::rpc::deadline::DefaultDeadline;
use crate::rpc::node::ShutdownMode;
use crate::rpc::server::Services;
use crate::{
    actions, boot, capacity, declared, elsewhere, first, host, images, journal, listen, meters,
    net, other_cron, pods, reserve, rpc, schedules, telemetry, units,
};

/// The version that init gets, for its messages.
const BUILD: &str = env!("CARGO_PKG_VERSION");
/// How long calls that run may take to end at a graceful stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The first pause before the network's task is started again after an error; the next line has the
/// longest.
const NETWORK_PAUSE: Duration = Duration::from_secs(1);
const NETWORK_PAUSE_MOST: Duration = Duration::from_secs(60);
/// How long the API waits for the first word of daemons that run pods of this node. One that isn't
/// there says so at once.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
/// How often the daemon gives memory back, and how much free heap is worth that.
const MEMORY_EVERY: Duration = Duration::from_secs(5);
const HEAP_WORTH: usize = 4 << 20;
/// The threads of tokio. The daemon waits more than it computes; long computations have threads of
/// their own.
const WORKERS: usize = 2;

/// Runs the daemon until it is stopped.
pub(crate) fn run(common: &Common, init_fd: i32) -> anyhow::Result<ExitCode> {
    let started = SystemTime::now();
    // The store starts the first threads.
    kernel::memory::use_one_heap();
    let socket = kernel::inherit::take(init_fd)
        .context("--init-fd is not a socket to init; `auraed serve` is started by `auraed`")?;
    let sources = common.sources();
    let loaded = sources.load()?;
    let (log_level, words) = telemetry::start(&loaded.config.node.log_level);
    let state = loaded.config.paths.state.clone();
    let _lock = StateLock::acquire(&state)?;
    let store = Store::open(&state)?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start the daemon's threads")?;
    threads.block_on(async {
        let (node_init, welcome) = NodeInit::connect(socket, BUILD).await?;
        let parts = Parts::start(&loaded, store, node_init, &welcome, words).await?;
        let daemon = Arc::new(Daemon {
            sources,
            loaded: Mutex::new(loaded.clone()),
            reloading: tokio::sync::Mutex::new(()),
            name: node_name(&loaded.config),
            started,
            controllers: parts.controllers.clone(),
            welcome,
            node_init: parts.node_init.clone(),
            identity: parts.identity.clone(),
            logs: parts.logs.clone(),
            store: parts.store.clone(),
            images: parts.images.clone(),
            elsewhere: parts.elsewhere.clone(),
            runtime: parts.runtime.clone(),
            units: parts.units.clone(),
            cell_network: parts.cell_network.clone(),
            tenants: parts.tenants.clone(),
            deadline: DefaultDeadline::new(loaded.config.api.deadline.0),
            log_level,
        });
        serve(loaded, parts, daemon).await
    })
}

/// The subsystems of a running daemon.
struct Parts {
    store: Store,
    node_init: NodeInit,
    identity: Arc<Identity>,
    logs: Logs,
    images: Images,
    pods: Pods,
    elsewhere: Links,
    schedules: Schedules,
    units: Units,
    /// Its sockets are read for as long as this is there.
    journal: Option<Journal>,
    tenants: Tenants,
    runtime: Runtime,
    cell_network: CellNetwork,
    controllers: Vec<String>,
}

impl Parts {
    async fn start(
        loaded: &Loaded,
        store: Store,
        node_init: NodeInit,
        welcome: &Welcome,
        words: Words,
    ) -> anyhow::Result<Self> {
        let config = &loaded.config;
        let state = &config.paths.state;
        let tenants = Tenants::start(store.clone(), state, capacity::of(config)).await?;
        capacity::say_what_is_cut(config);
        let logs = Logs::start(&state.join("logs"), logs_config(config))?;
        logs.hold_quotas(&tenants);
        let settings = runtime_settings(config)?;
        other_cron::leave_out(&settings.cgroup_root);
        let controllers = kernel::cgroup::Cgroup::open(&settings.cgroup_root)?.controllers()?;
        // Cell-inits answer while policies are read here.
        let adopting = tokio::spawn(adopt(
            config.clone(),
            settings,
            (node_init.clone(), welcome.clone()),
            tenants.clone(),
            (Arc::new(logs.clone()), Arc::new(store.clone())),
        ));
        let identity = start_identity(config, &store, &node_init, welcome, &tenants).await?;
        let identity = Arc::new(identity);
        meters::register(&tenants, &identity);
        let (runtime, adoption, cell_network) = adopting.await??;
        let images = images::start(config, &runtime, &tenants).await?;
        runtime.set_images(images::of_cells(images.clone())).await;
        let name = node_name(config);
        let (classes, elsewhere) = elsewhere::start(config, &name, &identity, &images)?;
        let pods = pods::start(config, name, &runtime, &identity, &tenants, classes)?;
        let wiring = schedules::Wiring {
            node_name: node_name(config),
            labels: &config.node.labels,
            store: &store,
            tenants: &tenants,
            identity: &identity,
            runtime: &runtime,
            pods: &pods,
            images: &images,
        };
        let schedules = schedules::start(wiring).await.context("the schedules")?;
        let units = units::start(config, welcome, &store, &identity, &runtime, &logs)?;
        schedules.know_units(units.clone());
        let journal = journal::start(config, welcome, &logs, &runtime, &units, &node_init, words);
        let journal = journal.await;
        begin_retention(&runtime, &logs);
        tracing::info!(
            cells = adoption.cells,
            executables = adoption.executables,
            finished = adoption.finished,
            refused = adoption.refused,
            starts = welcome.daemon_starts,
            "workloads adopted"
        );
        Ok(Self {
            store,
            node_init,
            identity,
            logs,
            images,
            pods,
            elsewhere,
            schedules,
            units,
            journal,
            tenants,
            runtime,
            cell_network,
            controllers,
        })
    }
}

/// Takes over what an earlier daemon has left.
async fn adopt(
    config: Config,
    settings: Settings,
    (node, welcome): (NodeInit, Welcome),
    tenants: Tenants,
    (logs, archive): (Arc<Logs>, Arc<Store>),
) -> anyhow::Result<(Runtime, Adoption, CellNetwork)> {
    // Which cells have a network is known before they are shown.
    let network = CellNetwork::open(&config, &tenants).await?;
    let neighbours = Neighbours {
        logs,
        archive,
        networks: Arc::new(network.clone()),
        hooks: Arc::new(NodeHooks::open(&config.paths.run)?),
    };
    let started = Runtime::start(settings, node, &welcome, tenants, neighbours);
    let (runtime, adoption) = started.await?;
    Ok((runtime, adoption, network))
}

/// Logs are removed once it is known which of them belong to an object.
fn begin_retention(runtime: &Runtime, logs: &Logs) {
    let (runtime, logs) = (runtime.clone(), logs.clone());
    tokio::spawn(async move {
        runtime.logs_are_known().await;
        logs.begin_retention();
    });
}

async fn start_identity(
    config: &Config,
    store: &Store,
    node_init: &NodeInit,
    welcome: &Welcome,
    tenants: &Tenants,
) -> anyhow::Result<Identity> {
    let quotas = tenants.clone();
    let options = IdentityOptions {
        state_dir: config.paths.state.clone(),
        node: node_name(config).parse().context("node.name")?,
        trust_domain: config
            .node
            .trust_domain
            .parse()
            .context("node.trust_domain")?,
        lifetimes: lifetimes(config),
        actions: actions::definitions(),
        audit: AuditLimits::of(move || quotas.limits()),
        audit_head: welcome
            .audit_head
            .map(|(sequence, hash)| Head { sequence, hash }),
        audit_sink: Box::new(Heads::start(node_init.clone())),
    };
    Ok(Identity::start(options, store.clone()).await?)
}

/// Sends the newest head of the audit to init; heads that come faster than init reads are skipped.
struct Heads(watch::Sender<(u64, Hash)>);

impl Heads {
    fn start(node_init: NodeInit) -> Self {
        let (send, mut newest) = watch::channel((0, Hash::default()));
        tokio::spawn(async move {
            while newest.changed().await.is_ok() {
                let (sequence, hash) = *newest.borrow_and_update();
                node_init.audit_head(sequence, hash).await;
            }
        });
        Self(send)
    }
}

impl AuditHeadSink for Heads {
    fn put(&self, sequence: u64, hash: Hash) {
        self.0.send_replace((sequence, hash));
    }
}

fn node_name(config: &Config) -> String {
    if config.node.name.is_empty() {
        host::default_name()
    } else {
        config.node.name.clone()
    }
}

fn runtime_settings(config: &Config) -> anyhow::Result<Settings> {
    let tenants = reserve::settle(&reserve::base()?, &capacity::of(config))?;
    let mut settings = Settings::new(config.paths.run.join("cells"), tenants);
    settings.first_id = config.runtime.first_id;
    settings.id_count = config.runtime.id_count;
    settings.bounds = bounds(config);
    settings.cdi.clone_from(&config.runtime.cdi);
    settings.disks.clone_from(&config.paths.state);
    settings.reserved_ports = crate::cell_network::reserved_ports(config);
    settings.open_networks = crate::cell_network::open_networks(config);
    Ok(settings)
}

/// What the API is served with.
fn services(parts: &Parts, daemon: &Arc<Daemon>, config: &Config) -> Services {
    Services {
        identity: parts.identity.clone(),
        runtime: parts.runtime.clone(),
        store: parts.store.clone(),
        logs: parts.logs.clone(),
        inbox: parts.journal.as_ref().map(Journal::inbox),
        images: parts.images.clone(),
        pods: parts.pods.clone(),
        elsewhere: Arc::new(parts.elsewhere.clone()),
        schedules: parts.schedules.clone(),
        units: parts.units.clone(),
        node: daemon.clone(),
        tenants: parts.tenants.clone(),
        deadline: daemon.deadline.clone(),
        max_message: usize::try_from(config.limits.message.0).unwrap_or(usize::MAX),
    }
}

async fn serve(loaded: Loaded, parts: Parts, daemon: Arc<Daemon>) -> anyhow::Result<ExitCode> {
    let config = &loaded.config;
    let authenticator = Arc::new(Authenticator::new(parts.identity.clone())?);
    let connections = Pool::new(&parts.tenants, Quota::Connections);
    let options = listen_options(config, connections);
    let (socket, tcp) = (options.socket.clone(), options.tcp.clone());
    parts.pods.are_seen(SEEN_WITHIN).await;
    let mut listeners = listen::open(options, authenticator).await?;
    let mut beside = JoinSet::new();
    keep_network(config, &daemon, &mut beside);
    let identity = parts.identity.clone();
    beside.spawn(async move { identity.keep_certificates().await });
    let (pods, units) = (parts.pods.clone(), parts.units.clone());
    beside.spawn(first::end_first(pods, units, parts.node_init.clone()));
    let (role, init) = (daemon.welcome.role, &parts.node_init);
    if let Some(bus) = units::on_the_bus(config, role, &parts.units, &parts.identity, init) {
        beside.spawn(bus);
    }
    if parts.journal.is_some() {
        let (logs, runtime) = (&parts.logs, &parts.runtime);
        let feed = journal::feed(config, logs, runtime, &parts.identity, daemon.started)?;
        beside.spawn(feed.run());
    }
    declared::keep(config, &parts.schedules, &parts.identity, &mut beside);
    beside.spawn(keep_small());
    if parts.images.are_open() {
        beside.spawn(images::prune(parts.images.clone(), config.images.max_age.0));
        beside.spawn(images::relieve(parts.images.clone()));
    }
    let (close, mut closing) = watch::channel(false);
    let services = services(&parts, &daemon, config);
    let mut server = tokio::spawn(rpc::server::serve(
        services,
        listeners.incoming,
        async move {
            // Dropped or set: either way it is time to close.
            let _closed = closing.wait_for(|close| *close).await;
        },
    ));
    // Init reports it to the service manager around it, if there is one.
    parts.node_init.ready().await;
    tracing::info!(socket = %socket.display(), ?tcp, "serving the API");
    // Configuration, schema and policies are read: most of that code isn't run again.
    kernel::memory::release_code();
    run_first(config, &parts, &daemon, &mut beside);
    let why = tokio::select! {
        told = until_told_to_stop(&parts.node_init, &daemon) => told?,
        // A daemon that can't be reached is of no use: init starts another.
        ended = &mut server => {
            ended.context("the API's task failed")?.context("the API isn't served any more")?;
            anyhow::bail!("the API isn't served any more")
        }
        Some(ended) = listeners.tasks.join_next() => {
            anyhow::bail!("a listener of the API has ended by itself: {}", last_words(ended))
        }
    };
    tracing::info!(why, "stopping; workloads go on");
    drop(listeners.tasks);
    close.send_replace(true);
    if tokio::time::timeout(STOP_GRACE, server).await.is_err() {
        tracing::warn!("calls were still running after {STOP_GRACE:?}; they are cut off");
    }
    beside.shutdown().await;
    leave_pods(&parts).await;
    parts.logs.stop().await?;
    Ok(ExitCode::SUCCESS)
}

/// Where the node ends, nothing of a pod is left on it: its cells have ended before the daemon.
async fn leave_pods(parts: &Parts) {
    let state = *parts.node_init.state().borrow();
    if let InitState::ShuttingDown(..) = state {
        parts.pods.all_gone(STOP_GRACE).await;
    }
}

/// Gives back what was freed, and the code that was needed, for as long as the daemon serves:
/// workloads die of memory before the daemon does, so what it doesn't need is theirs.
async fn keep_small() {
    let mut ticks = tokio::time::interval(MEMORY_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let give_back = || {
        kernel::memory::release_heap(HEAP_WORTH);
        // What is still needed is mapped again from the page cache, a few pages at a time.
        kernel::memory::release_code();
    };
    loop {
        ticks.tick().await;
        // An error is a panic there, and one look less.
        let _ = tokio::task::spawn_blocking(give_back).await;
    }
}

/// The error of a task that should have run for ever.
fn last_words<T, E: std::fmt::Display>(ended: Result<T, E>) -> String {
    ended.map_or_else(|error| error.to_string(), |_| "its task ended".to_owned())
}

fn listen_options(config: &Config, connections: Pool) -> listen::Options {
    let socket = &config.api.socket;
    let default = || config.paths.run.join("aurae.sock");
    listen::Options {
        socket: if socket.as_os_str().is_empty() {
            default()
        } else {
            socket.clone()
        },
        tcp: config.api.listen.clone(),
        connections,
        handshake_timeout: config.api.handshake_timeout.0,
    }
}

fn keep_network(config: &Config, daemon: &Arc<Daemon>, beside: &mut JoinSet<()>) {
    use crate::net::config::Manage;
    let ours = match config.network.manage {
        Manage::Auto => match units::of_network(config, daemon.welcome.role) {
            Some(service) => {
                tracing::info!(service, "the network is another one's");
                false
            }
            None => daemon.welcome.role == Role::Machine,
        },
        Manage::Always => true,
        Manage::Never => false,
    };
    if !ours {
        return;
    }
    let options = net::Options {
        config: config.network.clone(),
        host_name: daemon.name.clone(),
        resolv_conf: "/etc/resolv.conf".into(),
        run: "/run".into(),
        taken: config.paths.run.join("links"),
    };
    let init = daemon.node_init.state();
    beside.spawn(async move {
        let mut pause = NETWORK_PAUSE;
        while let Err(error) = net::run(options.clone(), going_down(init.clone())).await {
            tracing::error!(%error, ?pause, "the network is not managed; looking again");
            // The cause (memory, a queue of the kernel's) gives no event when it is over, so this
            // waits.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(NETWORK_PAUSE_MOST);
        }
    });
}

/// The machine goes down.
async fn going_down(mut init: watch::Receiver<InitState>) {
    let down = |state: &InitState| matches!(state, InitState::ShuttingDown(..));
    if init.wait_for(down).await.is_err() {
        // Init is gone, not the machine: the next daemon goes on with the leases.
        std::future::pending::<()>().await;
    }
}

/// Runs `boot.run`, and then does what `boot.then` says.
fn run_first(config: &Config, parts: &Parts, daemon: &Arc<Daemon>, beside: &mut JoinSet<()>) {
    let boot = config.boot.clone();
    if boot.run.trim().is_empty() {
        return;
    }
    let (identity, runtime) = (parts.identity.clone(), parts.runtime.clone());
    let daemon = daemon.clone();
    beside.spawn(async move {
        match boot::run(&boot, &identity, &runtime).await {
            Ok(object) => tracing::info!(path = %object.meta().path, "boot.run has ended"),
            Err(error) => tracing::error!(%error, "boot.run failed"),
        }
        let mode = match boot.then {
            Then::Nothing => return,
            Then::PowerOff => ShutdownMode::PowerOff,
            Then::Reboot => ShutdownMode::Reboot,
        };
        daemon.go_down(mode, None).await;
    });
}

/// Serves signals and init until one of them ends the daemon; says which.
async fn until_told_to_stop(node_init: &NodeInit, daemon: &Daemon) -> anyhow::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut init = node_init.state();
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok("SIGTERM"),
            _ = interrupt.recv() => return Ok("SIGINT"),
            _ = hang_up.recv() => {
                if let Err(error) = daemon.reread().await {
                    tracing::error!(%error, "the configuration was not read again");
                }
            }
            changed = init.changed() => {
                let state = *init.borrow_and_update();
                if changed.is_err() || state == InitState::Gone {
                    return Ok("init is gone");
                }
                if let InitState::ShuttingDown(mode, bound_ms, _) = state {
                    // Under another init the machine goes on.
                    match mode {
                        PowerMode::Exit => tracing::warn!(bound_ms, "the node ends"),
                        _ => tracing::warn!(?mode, bound_ms, "the machine goes down"),
                    }
                }
            }
        }
    }
}
