// SPDX-License-Identifier: Apache-2.0
//! Probes and hooks of pods on a real node, against servers of this process: the pods are on the
//! node's own network, so that their localhost is ours.

use std::net::SocketAddr;
use std::sync::Arc;

use api::pod::v0 as wire;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic_health::ServingStatus;
use wire::WaitFor;
use wire::probe::Ask;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, SOON, assert_clean, at, container, exec, how, people, pods, remove, run, seconds,
    shell, spec, until,
};

fn probe(ask: Ask) -> Option<wire::Probe> {
    Some(wire::Probe {
        ask: Some(ask),
        period: Some(seconds(1)),
        failure_threshold: Some(1),
        ..Default::default()
    })
}

fn on_the_nodes_network(containers: Vec<wire::Container>) -> wire::PodSpec {
    wire::PodSpec {
        host_network: true,
        ..spec(containers)
    }
}

/// Answers one request with 200, and tells what was asked for.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, asked: &mpsc::Sender<String>) {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => request.extend(piece.iter().take(count)),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let _ = asked.send(path).await;
    let text = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(text).await;
    let _ = stream.shutdown().await;
}

/// A server at an address of this machine; with `tls` its certificate is of nothing known.
async fn serve(address: &str, tls: bool) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let (tell, asked) = mpsc::channel(64);
    let acceptor = tls.then(|| {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["elsewhere.test".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        tokio_rustls::TlsAcceptor::from(Arc::new(config))
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            match &acceptor {
                None => answer(stream, &tell).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        answer(stream, &tell).await;
                    }
                }
            }
        }
    });
    (at, asked)
}

fn http(at: SocketAddr, path: &str) -> wire::HttpAction {
    wire::HttpAction {
        port: at.port().into(),
        path: path.to_owned(),
        ..Default::default()
    }
}

crate::pods::in_each_class! {
    a_probe_that_fails_leaves_the_time_that_it_says,
}

#[tokio::test]
async fn probes_ask_by_tls_whatever_the_certificate_and_at_other_hosts() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let (secure, _secure) = serve("127.0.0.1", true).await;
    let (other, _other) = serve("127.0.0.5", false).await;
    let by_tls = wire::HttpAction {
        tls: true,
        ..http(secure, "/")
    };
    let elsewhere = wire::HttpAction {
        host: "127.0.0.5".to_owned(),
        ..http(other, "/")
    };
    let connects = |host: &str| wire::TcpAction {
        port: other.port().into(),
        host: host.to_owned(),
    };
    let asks = [
        ("tls", Ask::Http(by_tls.clone()), true),
        ("plain", Ask::Http(http(secure, "/")), false),
        ("elsewhere", Ask::Http(elsewhere), true),
        ("here", Ask::Http(http(other, "/")), false),
        ("connects", Ask::Tcp(connects("127.0.0.5")), true),
        ("refused", Ask::Tcp(connects("127.0.0.6")), false),
    ];
    let containers = asks.iter().map(|(name, ask, _)| {
        let mut app = container(name, "exec sleep 900");
        app.readiness = probe(ask.clone());
        app
    });
    let spec = on_the_nodes_network(containers.collect());
    run(&ann, "web", spec, WaitFor::Created).await.unwrap();
    let known = |status: &wire::PodStatus| {
        let mut all = status.containers.iter().zip(&asks);
        all.all(|(it, (_, _, ready))| it.ready == *ready && (*ready || !it.message.is_empty()))
    };
    until(&ann, "web", "asked", known).await;
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn a_probe_asks_a_health_server_of_grpc_by_service() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("shop", ServingStatus::Serving)
        .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let server = tonic::transport::Server::builder().add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));
    let ask = |service: &str| {
        probe(Ask::Grpc(wire::GrpcAction {
            port: port.into(),
            service: service.to_owned(),
        }))
    };
    let mut shop = container("shop", "exec sleep 900");
    shop.readiness = ask("shop");
    let mut whole = container("whole", "exec sleep 900");
    whole.readiness = ask("");
    let mut none = container("none", "exec sleep 900");
    none.readiness = ask("none");
    let spec = on_the_nodes_network(vec![shop, whole, none]);
    run(&ann, "web", spec, WaitFor::Created).await.unwrap();
    let as_known = |status: &wire::PodStatus| {
        let all = &status.containers;
        all[0].ready && all[1].ready && !all[2].ready && !all[2].message.is_empty()
    };
    until(&ann, "web", "ready as its services", as_known).await;
    reporter
        .set_service_status("shop", ServingStatus::NotServing)
        .await;
    let ill = |status: &wire::PodStatus| {
        let shop = &status.containers[0];
        !shop.ready && shop.message.contains("NOT_SERVING") && status.containers[1].ready
    };
    until(&ann, "web", "not ready with its service", ill).await;
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn a_probe_that_fails_leaves_the_time_that_it_says(node: TestNode) {
    let (_, ann) = people(&node).await;
    let deaf = "trap '' TERM; rm -f /mnt/sick; touch /mnt/deaf; while :; do sleep 0.1; done";
    let mut app = container("app", deaf);
    app.liveness = probe(Ask::Exec(wire::ExecAction {
        argv: shell("! [ -e /mnt/sick ]"),
    }));
    let liveness = app.liveness.as_mut().unwrap();
    liveness.grace = Some(seconds(1));
    // What a loaded machine answers late is no failure here.
    liveness.timeout = Some(seconds(60));
    let spec = wire::PodSpec {
        restart_policy: wire::RestartPolicy::Always.into(),
        // Longer than this test waits.
        stop_grace: Some(seconds(600)),
        ..spec(vec![app])
    };
    assert!(SOON.as_secs() < 600);
    run(&ann, "web", spec, WaitFor::Ready).await.unwrap();
    // Sooner, the program itself would take the file away, and would hear the signal.
    let sick = "until [ -e /mnt/deaf ]; do sleep 0.1; done; touch /mnt/sick";
    assert_eq!(exec(&ann, "web/app", sick).await, EXITED);
    let again = |status: &wire::PodStatus| status.containers[0].restarts >= 1;
    let status = until(&ann, "web", "started again", again).await;
    let killed = Some(api::runtime::v0::exit::How::Signal(9));
    assert_eq!(how(&status), killed, "{status:#?}");
    stop_at_once(&ann).await;
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn stop_at_once(person: &Person) {
    let stop = wire::StopRequest {
        r#ref: at("web"),
        grace: Some(prost_types::Duration::default()),
    };
    pods(person).stop(stop).await.unwrap();
}

#[tokio::test]
async fn hooks_run_a_program_or_ask_a_server_and_one_that_fails_stops_its_container() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let (server, mut asked) = serve("127.0.0.1", false).await;
    let hook = |what| Some(wire::Hook { what: Some(what) });
    let get = |path: &str| hook(wire::hook::What::Http(http(server, path)));
    let program = |script: &str| {
        hook(wire::hook::What::Exec(wire::ExecAction {
            argv: shell(script),
        }))
    };
    let mut by_http = container("http", "exec sleep 900");
    by_http.post_start = get("/begun");
    by_http.pre_stop = get("/ends");
    // It counts as started when the hook is done, which waits for a word of the program.
    let mut by_exec = container("exec", "touch /mnt/runs; exec sleep 900");
    by_exec.post_start = program("until [ -e /mnt/runs ]; do sleep 0.1; done; touch /mnt/hooked");
    let spec = on_the_nodes_network(vec![by_http, by_exec]);
    run(&ann, "web", spec, WaitFor::Ready).await.unwrap();
    assert_eq!(asked.recv().await.as_deref(), Some("/begun"));
    assert_eq!(exec(&ann, "web/exec", "[ -e /mnt/hooked ]").await, EXITED);
    let stop = wire::StopRequest {
        r#ref: at("web"),
        grace: None,
    };
    pods(&ann).stop(stop).await.unwrap();
    assert_eq!(asked.recv().await.as_deref(), Some("/ends"));
    let mut fails = container("app", "exec sleep 900");
    fails.post_start = program("exit 3");
    let spec = on_the_nodes_network(vec![fails]);
    run(&ann, "fails", spec, WaitFor::Created).await.unwrap();
    let stopped = |status: &wire::PodStatus| how(status).is_some();
    let status = until(&ann, "fails", "stopped", stopped).await;
    let message = &status.containers[0].message;
    assert!(
        message.contains("post_start failed") && message.contains('3'),
        "{message}"
    );
    for path in ["web", "fails"] {
        remove(&ann, path, true).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}
