// SPDX-License-Identifier: Apache-2.0
//! The agent: runs programs on a node for the host, over a virtio port (see `testkit::agent`).
//!
//! Started by the node as a workload of its own that shares the node's namespaces. It is part of
//! the test bed, not of Aurae, and no node that isn't a test has it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use testkit::agent::{Kind, PORT, receive, send};

/// How often a reader looks whether its program has ended while a grandchild holds the pipe.
const LOOK_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// How long the kernel may take to find its ports.
const PORT_PATIENCE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

type Port = Arc<Mutex<File>>;

fn main() -> io::Result<()> {
    let mut reader = open_port().map_err(|error| {
        let hint = "is this a node of the test bed, with virtio_console loaded?";
        io::Error::other(format!("the virtio port {PORT:?}: {error}: {hint}"))
    })?;
    let port: Port = Arc::new(Mutex::new(reader.try_clone()?));
    say(&port, Kind::Ready, 0, &[])?;
    loop {
        let frame = receive(&mut reader)?;
        if frame.kind == Kind::Run {
            let port = Arc::clone(&port);
            thread::spawn(move || run(&port, frame.run, &frame.payload));
        }
    }
}

/// Opens the port as soon as the kernel has made it, which happens some time after its driver is
/// loaded.
fn open_port() -> io::Result<File> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, "/dev", inotify::WatchFlags::CREATE)?;
    loop {
        if let Some(path) = find_port() {
            return File::options().read(true).write(true).open(path);
        }
        if poll(
            &mut [PollFd::new(&watch, PollFlags::IN)],
            Some(&PORT_PATIENCE),
        )? == 0
        {
            return Err(ErrorKind::TimedOut.into());
        }
        rustix::io::read(&watch, &mut [0; 4096])?;
    }
}

/// Ports are numbered as their buses were found; their names are ours.
fn find_port() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    let named = |port: &fs::DirEntry| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT)
    };
    let port = ports.filter_map(Result::ok).find(named)?;
    Some(Path::new("/dev").join(port.file_name())).filter(|path| path.exists())
}

fn say(port: &Port, kind: Kind, run: u32, payload: &[u8]) -> io::Result<()> {
    send(
        &mut *port.lock().unwrap_or_else(PoisonError::into_inner),
        kind,
        run,
        payload,
    )
}

/// Runs one command line to its end. What can't be started is 127 and says why, as in a shell.
fn run(port: &Port, run: u32, line: &[u8]) {
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_terminator('\0');
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let status = match command.spawn() {
        Ok(child) => follow(port, run, child),
        Err(error) => {
            let _ = say(
                port,
                Kind::Err,
                run,
                format!("{program}: {error}\n").as_bytes(),
            );
            127
        }
    };
    let _ = say(port, Kind::Exit, run, &status.to_le_bytes());
}

fn follow(port: &Port, run: u32, mut child: Child) -> i32 {
    let ended = Arc::new(AtomicBool::new(false));
    let out = child
        .stdout
        .take()
        .map(|pipe| pump(port, Kind::Out, run, pipe, &ended));
    let err = child
        .stderr
        .take()
        .map(|pipe| pump(port, Kind::Err, run, pipe, &ended));
    let status = child.wait();
    ended.store(true, Ordering::Release);
    for reader in [out, err].into_iter().flatten() {
        let _ = reader.join();
    }
    status.map_or(126, code)
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| Some(128 + status.signal()?))
        .unwrap_or(126)
}

/// Passes a pipe on until its end, or until the program has ended and the pipe is empty: a program
/// that was left in the background doesn't hold up the one that started it.
fn pump<P>(
    port: &Port,
    kind: Kind,
    run: u32,
    mut pipe: P,
    ended: &Arc<AtomicBool>,
) -> thread::JoinHandle<()>
where
    P: Read + AsFd + Send + 'static,
{
    let (port, ended) = (Arc::clone(port), Arc::clone(ended));
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let over = ended.load(Ordering::Acquire);
            let ready = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&LOOK_AGAIN));
            match ready {
                Ok(0) if over => return,
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return,
            }
            let Ok(count @ 1..) = pipe.read(&mut buffer) else {
                return;
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            if say(&port, kind, run, bytes).is_err() {
                return;
            }
        }
    })
}
