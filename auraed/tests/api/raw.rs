// SPDX-License-Identifier: Apache-2.0
//! Calls of any method with a message that is already bytes: the table walks the descriptors, not
//! typed stubs.

use std::time::Duration;

use api::action::ACTIONS;
use api::status::{Failure, Reason, from_status};
use bytes::{Buf, BufMut};
use http::uri::PathAndQuery;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

use crate::caller::Person;
use crate::table::{Row, Whom};

/// How long a stream may stay silent before it counts as permitted and open.
const SILENCE: Duration = Duration::from_millis(300);

/// What came back first.
#[derive(Debug)]
pub(crate) enum Answer {
    Message(#[allow(dead_code, reason = "shown where a check fails")] Vec<u8>),
    /// A stream that is open, or ended, without a message.
    Nothing,
    Refused(Box<Failure>),
}

impl Answer {
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Answer::Refused(failure) => failure.reason,
            _ => None,
        }
    }

    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Answer::Refused(failure) => Some(failure.code),
            _ => None,
        }
    }

    /// It came past the policies: whatever it met then.
    pub(crate) fn was_permitted(&self) -> bool {
        !matches!(
            self.code(),
            Some(Code::Unauthenticated | Code::PermissionDenied | Code::NotFound)
        )
    }
}

#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

/// Calls the row's method as `person`, with the message that the row has for `whom`.
pub(crate) async fn call(person: &Person, row: &Row, whom: Whom) -> Answer {
    let action = ACTIONS
        .iter()
        .find(|action| action.name == row.action)
        .unwrap();
    send(person, action.rpc, (row.message)(whom)).await
}

/// The standard health check of a service.
pub(crate) async fn health(person: &Person, service: &str) -> Answer {
    // message HealthCheckRequest { string service = 1; }
    let mut message = vec![0x0a, u8::try_from(service.len()).unwrap()];
    message.extend(service.as_bytes());
    send(person, "/grpc.health.v1.Health/Check", message).await
}

/// Begins a call and sends nothing of its request; answers what it is refused for.
pub(crate) async fn send_nothing(person: &Person, path: &'static str) -> Failure {
    let mut grpc = tonic::client::Grpc::new(person.node.channel());
    grpc.ready().await.unwrap();
    let nothing = Request::new(tokio_stream::pending::<Vec<u8>>());
    let path = PathAndQuery::from_static(path);
    let answer = match grpc.streaming(nothing, path, Bytes).await {
        Ok(response) => response.into_inner().message().await,
        Err(status) => Err(status),
    };
    from_status(&answer.expect_err("an answer to no request"))
}

/// One message there, the first one back. A stream of requests stays open for the answer's sake.
pub(crate) async fn send(person: &Person, path: &'static str, message: Vec<u8>) -> Answer {
    let refused = |status: Status| Answer::Refused(Box::new(from_status(&status)));
    let mut grpc = tonic::client::Grpc::new(person.node.channel());
    grpc.ready().await.unwrap();
    let mut request = Request::new(tokio_stream::iter([message]));
    request.set_timeout(Duration::from_secs(10));
    let path = PathAndQuery::from_static(path);
    let mut stream = match grpc.streaming(request, path, Bytes).await {
        Ok(response) => response.into_inner(),
        Err(status) => return refused(status),
    };
    match tokio::time::timeout(SILENCE, stream.message()).await {
        Ok(Ok(Some(message))) => Answer::Message(message),
        Ok(Ok(None)) | Err(_) => Answer::Nothing,
        Ok(Err(status)) => refused(status),
    }
}
