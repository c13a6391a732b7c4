// SPDX-License-Identifier: Apache-2.0
//! The services together, with health and reflection beside them, served over the connections that
//! `listen` accepts. Called by `serve` once all cells are adopted, never before: so a client sees
//! every object.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::identity::v0::identity_server::IdentityServer;
use api::image::v0::images_server::ImagesServer;
use api::node::v0::node_server::NodeServer;
use api::observe::v0::observe_server::ObserveServer;
use api::pod::v0::pods_server::PodsServer;
use api::runtime::v0::runtime_server::RuntimeServer;
use api::schedule::v0::schedules_server::SchedulesServer;
use api::schedule::v0::units_server::UnitsServer;
use api::sets::v0::sets_server::SetsServer;
use api::tenant::v0::tenant_server::TenantServer;
use futures_util::Stream;
use identity::{Identity, Peer};
use image::node::Images;
use model::quota::Quota;
use observe::journal::Inbox;
use observe::{Logs, Observe};
use pod::Pods;
use runtime::Runtime;
use schedule::Schedules;
use schedule::unit::Units;
use store::Store;
use tenants::{Pool, Tenants, Turns};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use super::SERVICES;
use super::away::Away;
use super::budget::BudgetLayer;
use super::deadline::DefaultDeadline;
use super::identity::IdentityService;
use super::image::ImageService;
use super::layer::GuardLayer;
use super::node::{NodePort, NodeService};
use super::observe::ObserveService;
use super::pod::PodService;
use super::runtime::RuntimeService;
use super::schedule::ScheduleService;
use super::sets::SetsService;
use super::tenant::TenantService;
use super::unit::UnitService;
use crate::elsewhere::Links;

/// How many calls one connection may have open.
const MAX_STREAMS: u32 = 64;
/// The largest headers of a request, in bytes.
const MAX_HEADERS: u32 = 16 * 1024;
/// The most that a client may send of one call, and of all calls of a connection, before a handler
/// reads it, in bytes: beside `request_bytes` it is what a connection can make the daemon hold.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 128 * 1024;
/// Reads of sets that the store has at the same time, in turns by tenant: its one thread takes them
/// in the order in which they come.
const SETS_AT_THE_STORE: usize = 2;
/// How often a silent connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long it may take to answer.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open calls may go on when the daemon stops.
const PARTING: Duration = Duration::from_secs(1);

/// The subsystems and bounds that the services use.
pub(crate) struct Services {
    pub(crate) identity: Arc<Identity>,
    pub(crate) runtime: Runtime,
    pub(crate) store: Store,
    pub(crate) logs: Logs,
    /// Of the journal, where this node has its sockets.
    pub(crate) inbox: Option<Inbox>,
    pub(crate) images: Images,
    pub(crate) pods: Pods,
    /// Of daemons on which some of them run.
    pub(crate) elsewhere: Arc<Links>,
    pub(crate) schedules: Schedules,
    pub(crate) units: Units,
    pub(crate) node: Arc<dyn NodePort>,
    pub(crate) tenants: Tenants,
    /// Of unary calls without a deadline of their own.
    pub(crate) deadline: DefaultDeadline,
    /// The largest request, in bytes.
    pub(crate) max_message: usize,
}

/// Why the server ended by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("the descriptors for reflection are broken")]
    Reflection(#[from] tonic_reflection::server::Error),
    #[error("the API's server ended")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves until `stop`; then open calls have a moment to end.
pub(crate) async fn serve<C>(
    services: Services,
    incoming: impl Stream<Item = io::Result<C>>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    C: AsyncRead + AsyncWrite + Connected<ConnectInfo = Peer> + Unpin + Send + 'static,
{
    let guard = GuardLayer {
        default_deadline: services.deadline.clone(),
        max_message: services.max_message,
    };
    let budget = BudgetLayer::new(Arc::clone(&services.identity), &services.tenants);
    let (stopping, mut stopped) = tokio::sync::watch::channel(false);
    let stop = async move {
        stop.await;
        stopping.send_replace(true);
    };
    let late = async move {
        // An error means that `stop` was dropped with the server: then `served` is done first.
        let _ = stopped.wait_for(|stopping| *stopping).await;
        tokio::time::sleep(PARTING).await;
    };
    let served = Server::builder()
        .layer(guard)
        .layer(budget)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_routes(routes(services).await?)
        .serve_with_incoming_shutdown(incoming, stop);
    tokio::select! {
        ended = served => Ok(ended?),
        () = late => Ok(()),
    }
}

fn observe_service(services: &Services) -> ObserveService {
    ObserveService {
        identity: Arc::clone(&services.identity),
        away: away(services),
        observe: Observe::new(
            services.logs.clone(),
            Arc::new(services.runtime.clone()),
            Pool::new(&services.tenants, Quota::LogReaders),
        )
        .with_inbox(services.inbox.clone()),
    }
}

fn away(services: &Services) -> Away {
    Away {
        pods: services.pods.clone(),
        links: services.elsewhere.clone(),
    }
}

fn pod_service(services: &Services) -> PodService {
    PodService {
        identity: Arc::clone(&services.identity),
        pods: services.pods.clone(),
        schedules: services.schedules.clone(),
        images: services.images.clone(),
        timeout: services.deadline.get(),
        tenants: services.tenants.clone(),
    }
}

fn tenant_service(services: &Services) -> TenantService {
    TenantService {
        runtime: services.runtime.clone(),
        identity: Arc::clone(&services.identity),
        tenants: services.tenants.clone(),
        pods: services.pods.clone(),
        schedules: services.schedules.clone(),
        logs: services.logs.clone(),
        store: services.store.clone(),
    }
}

async fn routes(services: Services) -> Result<Routes, ServeError> {
    let (observe_service, pod_service) = (observe_service(&services), pod_service(&services));
    let (tenant_service, away) = (tenant_service(&services), away(&services));
    let Services {
        identity,
        runtime,
        store,
        inbox: _,
        logs,
        images,
        pods,
        elsewhere: _,
        schedules,
        units,
        node,
        tenants,
        deadline,
        max_message,
    } = services;
    let image_service = ImageService {
        identity: Arc::clone(&identity),
        images: images.clone(),
        timeout: deadline.get(),
    };
    let runtime_service = RuntimeService {
        identity: Arc::clone(&identity),
        runtime,
        schedules: schedules.clone(),
        pods,
        away,
        images,
        logs,
        deadline,
        tenants: tenants.clone(),
    };
    let schedule_service = ScheduleService {
        identity: Arc::clone(&identity),
        schedules,
    };
    let unit_service = UnitService {
        identity: Arc::clone(&identity),
        units,
    };
    let node_service = NodeService {
        identity: Arc::clone(&identity),
        port: node,
    };
    let sets_service = SetsService {
        identity: Arc::clone(&identity),
        store,
        reads: Turns::new(SETS_AT_THE_STORE),
    };
    let identity_service = IdentityService { identity, tenants };
    let mut routes = Routes::builder();
    routes
        .add_service(RuntimeServer::new(runtime_service).max_decoding_message_size(max_message))
        .add_service(ObserveServer::new(observe_service).max_decoding_message_size(max_message))
        .add_service(IdentityServer::new(identity_service).max_decoding_message_size(max_message))
        .add_service(NodeServer::new(node_service).max_decoding_message_size(max_message))
        .add_service(TenantServer::new(tenant_service).max_decoding_message_size(max_message))
        .add_service(SetsServer::new(sets_service).max_decoding_message_size(max_message))
        .add_service(ImagesServer::new(image_service).max_decoding_message_size(max_message))
        .add_service(PodsServer::new(pod_service).max_decoding_message_size(max_message))
        .add_service(SchedulesServer::new(schedule_service).max_decoding_message_size(max_message))
        .add_service(UnitsServer::new(unit_service).max_decoding_message_size(max_message));
    add_health(&mut routes).await;
    add_reflection(&mut routes)?;
    Ok(routes.routes())
}

/// Health and reflection answer nothing about any tenant: every caller whose certificate counts may
/// use them, without a line in the audit.
async fn add_health(routes: &mut tonic::service::RoutesBuilder) {
    let (reporter, health) = tonic_health::server::health_reporter();
    for service in SERVICES {
        reporter
            .set_service_status(service, tonic_health::ServingStatus::Serving)
            .await;
    }
    routes.add_service(health);
}

/// Both versions: older `grpcurl`s ask for the alpha.
fn add_reflection(routes: &mut tonic::service::RoutesBuilder) -> Result<(), ServeError> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(api::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(api::ERROR_DETAILS_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    routes.add_service(builder().build_v1()?);
    routes.add_service(builder().build_v1alpha()?);
    Ok(())
}
