// SPDX-License-Identifier: Apache-2.0
//! A connection to a port of a pod elsewhere: the stream of the call as a stream of bytes.

use api::convert::object::to_object_ref;
use api::pod::v0 as wire;
use futures_util::{Stream, stream};
use model::error::Error;
use model::object::ObjectRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tonic::Streaming;
use wire::dial_request::Message;

use super::link::{self, Link};

/// What is under way in each direction, in bytes.
const UNDER_WAY: usize = 64 << 10;

/// Connects.
///
/// # Errors
/// Those of `Pods.Dial` there.
pub(super) async fn dial(
    link: &Link,
    target: &ObjectRef,
    port: u16,
) -> Result<DuplexStream, Error> {
    let node = link.of(&target.tenant).await?;
    let (ours, theirs) = tokio::io::duplex(UNDER_WAY);
    let (read, write) = tokio::io::split(theirs);
    let start = wire::DialStart {
        r#ref: Some(to_object_ref(target)),
        port: port.into(),
    };
    let dialed = link::pods(&node).dial(asked(start, read)).await;
    let answers = dialed.map_err(|status| link.refusal(&status))?;
    tokio::spawn(hand_over(answers.into_inner(), write));
    Ok(ours)
}

/// Where what is sent has come to.
enum At {
    Start(wire::DialStart, ReadHalf<DuplexStream>),
    Data(ReadHalf<DuplexStream>),
    /// The call goes on until its answers have ended.
    Over,
}

/// The start, what is written, and its end.
fn asked(
    start: wire::DialStart,
    read: ReadHalf<DuplexStream>,
) -> impl Stream<Item = wire::DialRequest> {
    let message = |message| wire::DialRequest {
        message: Some(message),
    };
    stream::unfold(At::Start(start, read), move |at| async move {
        match at {
            At::Start(start, read) => Some((message(Message::Start(start)), At::Data(read))),
            At::Data(mut read) => {
                let mut data = Vec::with_capacity(UNDER_WAY);
                match read.read_buf(&mut data).await {
                    Ok(count) if count > 0 => Some((message(Message::Data(data)), At::Data(read))),
                    Ok(_) | Err(_) => Some((message(Message::Eof(wire::DialEof {})), At::Over)),
                }
            }
            At::Over => std::future::pending().await,
        }
    })
}

/// Hands what comes to who has dialled, until one of the two has closed.
async fn hand_over(mut answers: Streaming<wire::DialResponse>, mut write: WriteHalf<DuplexStream>) {
    while let Ok(Some(answer)) = answers.message().await {
        if write.write_all(&answer.data).await.is_err() {
            return;
        }
    }
    // Who reads sees the end; one that is gone doesn't care.
    let _ = write.shutdown().await;
}
