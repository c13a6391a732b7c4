// SPDX-License-Identifier: Apache-2.0
//! What a process that has confined itself may still do: nothing. The process is this program once
//! more, in the role `inside`: it confines itself, tries everything as hostile code in the engine
//! would, and writes what it was answered to its socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "of a test")]

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};

use rustix::io::Errno;
use testkit::stories::Told;

const STORIES: &[(&str, fn())] = &[(
    "a_confined_process_can_do_nothing",
    a_confined_process_can_do_nothing,
)];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("inside") {
        inside();
        return ExitCode::SUCCESS;
    }
    testkit::stories::run(STORIES, || Ok(()), |_, story| Told::by(story))
}

/// Each attempt by its name, and how it was answered.
fn attempts(ourselves: rustix::process::Pid) -> Vec<(&'static str, Result<(), Errno>)> {
    use rustix::{fs, net, process};
    let flags = fs::OFlags::RDONLY;
    let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    vec![
        (
            "open",
            fs::open("/etc/passwd", flags, fs::Mode::empty()).map(drop),
        ),
        ("stat", fs::stat("/").map(drop)),
        ("unlink", fs::unlink("/tmp/x")),
        ("mkdir", fs::mkdir("/tmp/x", fs::Mode::RWXU)),
        (
            "socket",
            net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).map(drop),
        ),
        (
            "unix socket",
            net::socket(net::AddressFamily::UNIX, net::SocketType::STREAM, None).map(drop),
        ),
        ("socketpair", UnixStream::pair().map(drop).map_err(errno)),
        ("pipe", rustix::pipe::pipe().map(drop)),
        ("dup", rustix::io::dup(rustix::stdio::stdin()).map(drop)),
        (
            "fork and exec",
            Command::new("/bin/true").spawn().map(drop).map_err(errno),
        ),
        (
            "thread",
            std::thread::Builder::new()
                .spawn(|| {})
                .map(drop)
                .map_err(errno),
        ),
        (
            "kill",
            process::kill_process(ourselves, process::Signal::TERM),
        ),
        (
            "kill another",
            process::test_kill_process(process::Pid::INIT),
        ),
        (
            "read another",
            fs::open("/proc/1/mem", flags, fs::Mode::empty()).map(drop),
        ),
        (
            "memfd",
            fs::memfd_create("x", fs::MemfdFlags::empty()).map(drop),
        ),
        (
            "pidfd",
            process::pidfd_open(ourselves, process::PidfdFlags::empty()).map(drop),
        ),
        (
            "more memory",
            process::setrlimit(process::Resource::As, unlimited()),
        ),
        (
            "dumpable",
            process::set_dumpable_behavior(process::DumpableBehavior::Dumpable),
        ),
    ]
}

fn unlimited() -> rustix::process::Rlimit {
    rustix::process::Rlimit {
        current: None,
        maximum: None,
    }
}

fn inside() {
    let ourselves = rustix::process::getpid();
    let confined = script::confine::enter(64 << 20);
    let answers = match confined {
        Err(e) => format!("not confined: {e}\n"),
        Ok(()) => attempts(ourselves)
            .into_iter()
            .map(|(name, answer)| format!("{name}: {answer:?}\n"))
            .collect(),
    };
    let flags = rustix::net::SendFlags::NOSIGNAL;
    rustix::net::send(rustix::stdio::stdin(), answers.as_bytes(), flags).unwrap();
}

fn a_confined_process_can_do_nothing() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new("/proc/self/exe")
        .arg("inside")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    let mut answers = String::new();
    ours.read_to_string(&mut answers).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {answers}");
    assert!(answers.lines().count() > 15, "{answers}");
    for answer in answers.lines() {
        assert!(
            answer.ends_with(
                "Err(Os { code: 1, kind: PermissionDenied, message: \"Operation not permitted\" })"
            ),
            "{answer}"
        );
    }
}
