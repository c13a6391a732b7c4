// SPDX-License-Identifier: Apache-2.0
//! What a question is put to ([`crate::Asking`]): something in which programs run, and which has
//! ports. A pod's sandbox is one, and a run of a schedule.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::error::Error;
use model::exit::Exit;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection to a port.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Something with ports.
pub trait Ports: Send + Sync {
    /// Connects to a port of it, or of another host, as from within.
    fn dial(
        &self,
        host: Option<IpAddr>,
        port: u16,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Box<dyn Stream>, Error>>;
}

/// See the module.
pub trait Reach: Ports {
    /// Runs another program in it, to its end. Of a pod: in that container.
    fn exec<'a>(
        &'a self,
        container: &'a str,
        argv: &'a [String],
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Exit, Error>>;
}
