// SPDX-License-Identifier: Apache-2.0
//! Asks a container: by a program in it, or over the pod's network. One question, one answer, with
//! a bound on both time and bytes; a container isn't trusted.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use model::error::{Error, Reason};
use model::exit::How;
use model::pod::probe::{Ask, Grpc, Hook, Http};
use tokio::time::timeout;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::reach::{Reach, Stream};
use crate::tls;

/// The most bytes of an answer's head.
const MAX_HEAD: usize = 32 << 10;
/// The most bytes of an answer's message.
const MAX_MESSAGE: usize = 4 << 10;

/// Asks once. `Err`: why the answer is no success.
pub(crate) async fn ask(
    reach: &dyn Reach,
    container: &str,
    ask: &Ask,
    within: Duration,
) -> Result<(), String> {
    let answer = async {
        match ask {
            Ask::Exec(argv) => exec(reach, container, argv, within).await,
            Ask::Http(http) => get(reach, http, within).await,
            Ask::Tcp(tcp) => reach.dial(tcp.host, tcp.port, within).await.map(drop),
            Ask::Grpc(grpc) => health(reach, grpc, within).await,
        }
    };
    match timeout(within, answer).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err(format!("no answer within {within:?}")),
    }
}

/// Does a hook, once.
pub(crate) async fn hook(
    reach: &dyn Reach,
    container: &str,
    hook: &Hook,
    within: Duration,
) -> Result<(), String> {
    let done = async {
        match hook {
            Hook::Exec(argv) => exec(reach, container, argv, within).await,
            Hook::Http(http) => get(reach, http, within).await,
            Hook::Sleep(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
        }
    };
    match timeout(within, done).await {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(_) => Err(format!("not done within {within:?}")),
    }
}

async fn exec(
    reach: &dyn Reach,
    container: &str,
    argv: &[String],
    within: Duration,
) -> Result<(), Error> {
    let exit = reach.exec(container, argv, within).await?;
    match exit.how {
        How::Code(0) => Ok(()),
        How::Code(code) => Err(failed(format!("the program exited with {code}"))),
        How::Signal(number) => Err(failed(format!("the program was killed by signal {number}"))),
        How::Unknown => Err(failed("how the program ended is not known".to_owned())),
    }
}

async fn get(reach: &dyn Reach, http: &Http, within: Duration) -> Result<(), Error> {
    let stream = reach.dial(http.host, http.port, within).await?;
    if !http.tls {
        return get_on(stream, http).await;
    }
    let shaken = tls::connect(stream, http).await;
    get_on(shaken.map_err(failed)?, http).await
}

async fn get_on(stream: impl Stream, http: &Http) -> Result<(), Error> {
    let broken = |e: hyper::Error| failed(format!("port {}: {e}", http.port));
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(broken)?;
    let request = request(http)?;
    let mut answer = pin!(sender.send_request(request));
    let mut connection = pin!(connection);
    let mut open = true;
    // The connection goes with the question; what is left of the answer's body isn't read.
    let status = loop {
        tokio::select! {
            biased;
            answer = &mut answer => break answer.map_err(broken)?.status(),
            ended = &mut connection, if open => {
                ended.map_err(broken)?;
                // What came before its end is still an answer.
                open = false;
            }
        }
    };
    match status.as_u16() {
        200..400 => Ok(()),
        other => Err(failed(format!("the answer's status is {other}"))),
    }
}

fn request(http: &Http) -> Result<http::Request<Empty<Bytes>>, Error> {
    let mut request = http::Request::get(http.effective_path());
    let has = |name: &str| {
        http.headers
            .iter()
            .any(|(it, _)| it.eq_ignore_ascii_case(name))
    };
    if !has("host") {
        let host = match http.host {
            Some(address) => SocketAddr::from((address, http.port)).to_string(),
            None => format!("localhost:{}", http.port),
        };
        request = request.header("host", host);
    }
    if !has("user-agent") {
        request = request.header("user-agent", "aurae-probe/0");
    }
    for (name, value) in &http.headers {
        request = request.header(name, value);
    }
    let request = request.header("connection", "close").body(Empty::new());
    request.map_err(|e| failed(format!("the request can't be made: {e}")))
}

async fn health(reach: &dyn Reach, grpc: &Grpc, within: Duration) -> Result<(), Error> {
    let stream = reach.dial(None, grpc.port, within).await?;
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        // One connection for one question.
        let stream = stream.take();
        let gone = || std::io::Error::from(std::io::ErrorKind::NotConnected);
        async move { stream.ok_or_else(gone) }
    });
    let broken = |e: tonic::transport::Error| failed(format!("port {}: {e}", grpc.port));
    let endpoint = Endpoint::from_shared(format!("http://localhost:{}", grpc.port));
    let endpoint = endpoint.map_err(broken)?;
    let channel = endpoint.connect_with_connector(connector).await;
    let client = HealthClient::new(channel.map_err(broken)?);
    let mut client = client.max_decoding_message_size(MAX_MESSAGE);
    let request = HealthCheckRequest {
        service: grpc.service.clone(),
    };
    let answer = client.check(request).await;
    let answer = answer.map_err(|status| failed(status.message().to_owned()))?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        other => Err(failed(format!("it answers {}", other.as_str_name()))),
    }
}

fn failed(message: String) -> Error {
    Error::new(Reason::WrongState, message)
}
