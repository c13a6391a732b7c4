// SPDX-License-Identifier: Apache-2.0
//! A line that breaks: a TCP proxy that cuts connections after so many bytes, in either direction,
//! and counts what it has passed on.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What a proxy does with each connection.
#[derive(Default)]
pub(crate) struct Line {
    /// Cut after so many bytes to the client; 0 for never.
    pub(crate) down: AtomicU64,
    /// Cut after so many bytes to the server; 0 for never.
    pub(crate) up: AtomicU64,
    /// How many connections are cut at most.
    pub(crate) cuts: AtomicUsize,
    /// How many were cut.
    pub(crate) cut: AtomicUsize,
    /// Bytes that were passed to clients, and to the server.
    pub(crate) passed_down: AtomicU64,
    pub(crate) passed_up: AtomicU64,
    ended: AtomicBool,
}

/// A proxy until this is dropped.
pub(crate) struct Proxy {
    pub(crate) line: Arc<Line>,
    port: u16,
}

impl Proxy {
    /// Before a port of the loopback.
    pub(crate) fn before(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Arc::new(Line::default());
        let shared = line.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), line) = (client, shared.clone()) else {
                    continue;
                };
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else {
                    continue;
                };
                pass(&line, &client, &server);
            }
        });
        Self { line, port }
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Cuts so many connections, each after so many bytes to the client.
    pub(crate) fn cut_down(&self, bytes: u64, connections: usize) {
        self.line.down.store(bytes, Ordering::Relaxed);
        self.line.cuts.store(connections, Ordering::Relaxed);
    }

    /// Cuts so many connections, each after so many bytes to the server.
    pub(crate) fn cut_up(&self, bytes: u64, connections: usize) {
        self.line.up.store(bytes, Ordering::Relaxed);
        self.line.cuts.store(connections, Ordering::Relaxed);
    }

    /// How many connections were cut.
    pub(crate) fn cut(&self) -> usize {
        self.line.cut.load(Ordering::Relaxed)
    }

    /// How many bytes went to clients.
    pub(crate) fn passed_down(&self) -> u64 {
        self.line.passed_down.load(Ordering::Relaxed)
    }

    /// How many bytes went to the server.
    pub(crate) fn passed_up(&self) -> u64 {
        self.line.passed_up.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.line.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn pass(line: &Arc<Line>, client: &TcpStream, server: &TcpStream) {
    for down in [false, true] {
        let (from, to) = if down {
            (server, client)
        } else {
            (client, server)
        };
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let line = line.clone();
        std::thread::spawn(move || copy(&line, &from, &to, down));
    }
}

/// Passes bytes on until one side ends or the line is to be cut.
fn copy(line: &Line, mut from: &TcpStream, mut to: &TcpStream, down: bool) {
    let (limit, passed) = if down {
        (&line.down, &line.passed_down)
    } else {
        (&line.up, &line.passed_up)
    };
    let mut here = 0;
    let mut buffer = [0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
        let read = u64::try_from(read).unwrap();
        passed.fetch_add(read, Ordering::Relaxed);
        here += read;
        let limit = limit.load(Ordering::Relaxed);
        let left = |cuts: usize| cuts.checked_sub(1);
        let due = limit > 0 && here >= limit;
        if due
            && line
                .cuts
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
                .is_ok()
        {
            line.cut.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
