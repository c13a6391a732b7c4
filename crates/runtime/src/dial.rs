// SPDX-License-Identifier: Apache-2.0
//! Sockets in a cell's network: made by a thread that enters it for that moment, and goes. A socket
//! stays in the network where it was made, so its owner can connect from anywhere. `pod` calls
//! it, for probes and forwarded ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream as StdStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use identity::permit::Permit;
use kernel::namespace::{self, Namespaces};
use model::error::{Error, Reason};
use model::object::ObjectRef;
use model::status::Object;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::net::{TcpSocket, TcpStream};

use super::Runtime;
use super::index::Key;

impl Runtime {
    /// Connects to a port as one of a running cell's own programs does. Without a host: by
    /// `localhost`, then by the cell's addresses, where a server may listen alone; IPv6 first.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where the cell has ended or nothing listens there, `DEADLINE`
    /// where no answer comes in time.
    pub async fn dial(
        &self,
        permit: Permit,
        target: &ObjectRef,
        (host, port): (Option<IpAddr>, u16),
        timeout: Duration,
    ) -> Result<TcpStream, Error> {
        permit.demand_tenant(&target.tenant)?;
        let object = self.shared.index.get(target)?;
        let key = Key::of(&object);
        let ended = || {
            let message = format!("the cell {} has ended", key.path);
            Error::new(Reason::WrongState, message)
        };
        let cell = self.shared.index.cell(&key).ok_or_else(ended)?;
        let init =
            rustix::io::fcntl_dupfd_cloexec(&*cell.init().process(), 3).map_err(|_| ended())?;
        let work = async move {
            let mut last = Err(std::io::Error::from(Errno::CONNREFUSED));
            let ways = host.map_or_else(|| ways(&object), |host| vec![host]);
            for address in ways {
                last = connect(&init, (address, port).into()).await;
                if last.is_ok() {
                    break;
                }
            }
            last
        };
        let connected = tokio::time::timeout(timeout, work).await;
        let Ok(connected) = connected else {
            let message = format!("port {port} did not answer within {timeout:?}");
            return Err(Error::new(Reason::Deadline, message));
        };
        connected.map_err(|e| {
            let message = format!("port {port}: {e}");
            Error::new(Reason::WrongState, message).errno(e.raw_os_error().unwrap_or_default())
        })
    }
}

/// Where a port of the cell is looked for.
fn ways(object: &Object) -> Vec<IpAddr> {
    let local = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
    let network = match object {
        Object::Cell(cell) => cell.network.as_ref(),
        Object::Executable(_) => None,
    };
    let own = network.iter().flat_map(|it| it.addresses());
    local.into_iter().chain(own).collect()
}

async fn connect(init: &OwnedFd, to: SocketAddr) -> std::io::Result<TcpStream> {
    let init = init.try_clone()?;
    let socket = tokio::task::spawn_blocking(move || in_network(&init, to)).await;
    let socket = socket.map_err(std::io::Error::other)??;
    TcpSocket::from_std_stream(socket).connect(to).await
}

/// A socket in the network of the process of that pidfd.
fn in_network(init: &OwnedFd, to: SocketAddr) -> std::io::Result<StdStream> {
    let make = || {
        namespace::join(init, Namespaces::NET)
            .map_err(|e| std::io::Error::from_raw_os_error(e.errno()))?;
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
        socket.map(StdStream::from).map_err(std::io::Error::from)
    };
    // Threads of a pool are used again: this one goes with the network that it is in.
    let gone = |_| std::io::Error::from(Errno::CANCELED);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("dial".to_owned());
        let thread = thread.spawn_scoped(scope, make)?;
        thread.join().map_err(gone)?
    })
}
