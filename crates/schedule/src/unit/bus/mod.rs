// SPDX-License-Identifier: Apache-2.0
//! Who has a name on the system bus, for services of `Type=dbus` (systemd.service(5), `BusName=`).
//! One connection, made when the first name is asked for; where there is no bus it is tried again,
//! and after every new connection it is asked again. It calls no service, and has no name itself.

mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use wire::{HEAD, Kind, Message};

/// Where the system bus is (D-Bus Specification, "System message bus").
pub const SYSTEM: &str = "/run/dbus/system_bus_socket";
/// Between two tries to reach it, the first one and the longest: its socket says nothing before it
/// is there.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// How long the bus may take for a part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Names and answers that wait.
const QUEUE: usize = 64;
/// The longest line before messages begin.
const LINE: usize = 512;

/// Whether a name has an owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) owned: bool,
}

/// Asks for names. Ends with its last handle.
#[derive(Clone, Debug)]
pub(crate) struct Bus {
    names: mpsc::Sender<String>,
}

impl Bus {
    /// A bus at that path; nothing is connected yet. Call it within a tokio runtime.
    pub(crate) fn new(path: PathBuf) -> (Bus, mpsc::Receiver<Told>) {
        let (names, wanted) = mpsc::channel(QUEUE);
        let (tell, told) = mpsc::channel(QUEUE);
        tokio::spawn(keep(path, wanted, tell));
        (Bus { names }, told)
    }

    /// From now on tells whether that name has an owner: at once, and whenever that changes.
    pub(crate) async fn watch(&self, name: String) {
        // Its task ends with the daemon alone.
        let _ = self.names.send(name).await;
    }
}

/// Keeps a connection for as long as the manager may ask.
async fn keep(path: PathBuf, mut wanted: mpsc::Receiver<String>, tell: mpsc::Sender<Told>) {
    let mut names = BTreeSet::new();
    let Some(first) = wanted.recv().await else {
        return;
    };
    names.insert(first);
    let mut pause = FIRST;
    loop {
        match talk(&path, &mut names, &mut wanted, &tell, &mut pause).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the system bus is not reached");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            more = wanted.recv() => match more {
                Some(name) => drop(names.insert(name)),
                None => return,
            },
        }
        pause = pause.saturating_mul(2).min(LONGEST);
    }
}

/// One connection, until it ends. `Ok`: the manager asks no more.
async fn talk(
    path: &Path,
    names: &mut BTreeSet<String>,
    wanted: &mut mpsc::Receiver<String>,
    tell: &mpsc::Sender<Told>,
    pause: &mut Duration,
) -> io::Result<()> {
    let stream = tokio::time::timeout(HANDSHAKE, handshake(path));
    let stream = stream.await.map_err(|_| io::ErrorKind::TimedOut)??;
    let (mut from, to) = stream.into_split();
    let mut asker = Asker {
        to,
        number: 1,
        asked: BTreeMap::new(),
    };
    asker.call("Hello", &[]).await?;
    for name in names.iter() {
        asker.ask(name).await?;
    }
    *pause = FIRST;
    // Read beside, so that no message is left half read.
    let (read, mut messages) = mpsc::channel(QUEUE);
    let reader = tokio::spawn(async move {
        loop {
            let message = next(&mut from).await;
            let ends = message.is_err();
            if read.send(message).await.is_err() || ends {
                return;
            }
        }
    });
    let ended = loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(Ok(message)) => {
                    if let Some(told) = asker.told(message)
                        && tell.send(told).await.is_err()
                    {
                        break Ok(());
                    }
                }
                Some(Err(error)) => break Err(error),
                None => break Err(io::ErrorKind::UnexpectedEof.into()),
            },
            more = wanted.recv() => match more {
                Some(name) => {
                    // Who asks again wants to know how it is now.
                    if let Err(error) = asker.ask(&name).await {
                        names.insert(name);
                        break Err(error);
                    }
                    names.insert(name);
                }
                None => break Ok(()),
            },
        }
    };
    reader.abort();
    ended
}

/// Connects, and says who this is: the kernel vouches for the number (D-Bus Specification,
/// "EXTERNAL").
async fn handshake(path: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(path).await?;
    let uid = rustix::process::geteuid().as_raw().to_string();
    let hex: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    stream
        .write_all(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes())
        .await?;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await?);
        if line.len() > LINE {
            return Err(io::Error::other("a line of its handshake is too long"));
        }
    }
    if !line.starts_with(b"OK ") {
        return Err(io::Error::other("it refuses this user"));
    }
    stream.write_all(b"BEGIN\r\n").await?;
    Ok(stream)
}

async fn next(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Message> {
    let wrong = || io::Error::other("what it says can't be read");
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await?;
    let mut rest = vec![0; wire::rest_of(&head).ok_or_else(wrong)?];
    from.read_exact(&mut rest).await?;
    wire::parse(&head, &rest).ok_or_else(wrong)
}

/// Whose name the bus has itself.
const SELF: &str = "org.freedesktop.DBus";

struct Asker<T> {
    to: T,
    number: u32,
    /// Which name a call was about.
    asked: BTreeMap<u32, String>,
}

impl<T: AsyncWriteExt + Unpin> Asker<T> {
    async fn call(&mut self, method: &str, arguments: &[&str]) -> io::Result<u32> {
        let number = self.number;
        self.number = number.checked_add(1).unwrap_or(1);
        self.to
            .write_all(&wire::call(number, method, arguments))
            .await?;
        Ok(number)
    }

    /// Asks for a name: to be told of changes, then how it is.
    async fn ask(&mut self, name: &str) -> io::Result<()> {
        let rule = format!(
            "type='signal',sender='{SELF}',path='/org/freedesktop/DBus',interface='{SELF}',\
             member='NameOwnerChanged',arg0='{name}'"
        );
        self.call("AddMatch", &[&rule]).await?;
        let number = self.call("GetNameOwner", &[name]).await?;
        self.asked.insert(number, name.to_owned());
        Ok(())
    }

    fn told(&mut self, message: Message) -> Option<Told> {
        match message.kind {
            Kind::Answer(number) => {
                let name = self.asked.remove(&number)?;
                Some(Told { name, owned: true })
            }
            Kind::Failure(number) => {
                let name = self.asked.remove(&number)?;
                if message.error != format!("{SELF}.Error.NameHasNoOwner") {
                    let error = message.error;
                    tracing::warn!(name, error, "the bus doesn't say who has a name");
                }
                Some(Told { name, owned: false })
            }
            Kind::Signal if message.member == "NameOwnerChanged" && message.sender == SELF => {
                match message.arguments.as_slice() {
                    [name, _, new] => Some(Told {
                        name: name.clone(),
                        owned: !new.is_empty(),
                    }),
                    _ => None,
                }
            }
            Kind::Signal | Kind::Other => None,
        }
    }
}

#[cfg(test)]
mod tests;
