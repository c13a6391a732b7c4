// SPDX-License-Identifier: Apache-2.0
//! Messages of D-Bus and the streams that carry them, after the D-Bus Specification. Values are
//! read and written by `zbus`, of which only that part is built; what is around them is here,
//! since a message has a bound, and no slow client holds up another.

pub(crate) mod auth;
pub(crate) mod message;
pub(crate) mod outbox;

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use message::{HEAD, Message};

/// The longest body that is read, in bytes. A longer one is read over and not kept.
const MAX_BODY: usize = 1 << 20;
/// The longest header.
const MAX_HEADER: usize = 64 << 10;

/// The next message. Nothing is lost where it is dropped between two messages alone.
///
/// # Errors
/// The stream has ended, or what comes is no message.
pub(crate) async fn next(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let wrong = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "what comes is no message of D-Bus",
        )
    };
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await?;
    let (fields, body) = message::lengths(&head).ok_or_else(wrong)?;
    if fields > MAX_HEADER {
        return Err(wrong());
    }
    let mut rest = vec![0; fields.next_multiple_of(8)];
    from.read_exact(&mut rest).await?;
    rest.truncate(fields);
    let mut message = Message::parse(&head, rest).ok_or_else(wrong)?;
    if body > MAX_BODY {
        let mut left = from.take(u64::try_from(body).unwrap_or(u64::MAX));
        let read = tokio::io::copy(&mut left, &mut tokio::io::sink()).await?;
        if usize::try_from(read).ok() != Some(body) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        message.is_too_long = true;
        return Ok(message);
    }
    message.body = vec![0; body];
    from.read_exact(&mut message.body).await?;
    Ok(message)
}
