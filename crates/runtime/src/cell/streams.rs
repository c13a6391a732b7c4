// SPDX-License-Identifier: Apache-2.0
//! Where the standard streams of an executable lead, and how it is scheduled: from the spec's words
//! to the protocol's. What the daemon has is put in the place of a pipe; the rest the program's own
//! process opens.

use std::fs::File;
use std::os::fd::OwnedFd;

use init::protocol::{Keyring as WireKeyring, Open, OpenHow};
use model::error::{Error, Reason};
use model::launch::{CpuPolicy, IoClass, Keyring, Scheduling, Stream, Streams};

use super::launch;
use crate::direct::Ends;
use crate::extras::{Extras, Terminal};

/// The level for disks where a class is given without one.
const USUAL_LEVEL: u8 = 4;

/// Where streams lead that no pipe of the log's takes.
#[derive(Default)]
pub(super) struct Led {
    /// What the program's own process opens.
    pub(super) opens: Vec<Open>,
    /// The ends that an attacher reads.
    pub(super) direct: Ends,
}

/// Changes what comes in the place of the three streams, the first of `fds`; and says what is to be
/// opened. None of it beside a terminal.
pub(super) fn lead(streams: &Streams, extras: &Extras, fds: &mut [OwnedFd]) -> Result<Led, Error> {
    let Led {
        mut opens,
        mut direct,
    } = Led::default();
    let all = [&streams.stdin, &streams.stdout, &streams.stderr];
    for ((number, stream), place) in (0_u8..).zip(all).zip(fds.iter_mut()) {
        let opened = |how, path: &str| Open {
            stream: number,
            how,
            path: path.as_bytes().to_vec(),
        };
        match stream {
            Stream::Log => {}
            Stream::Null => *place = null()?,
            Stream::Descriptor(name) => *place = given(extras, name)?,
            Stream::File(path) => opens.push(opened(OpenHow::Plain, path)),
            Stream::Append(path) => opens.push(opened(OpenHow::Append, path)),
            Stream::Truncate(path) => opens.push(opened(OpenHow::Truncate, path)),
            Stream::Tty(path) => opens.push(opened(terminal(extras), path)),
            Stream::Inherit => opens.push(opened(OpenHow::Same, "")),
            Stream::Attached => {
                let (read, write) = pipe()?;
                *place = write;
                match number {
                    1 => direct.stdout = Some(read),
                    _ => direct.stderr = Some(read),
                }
            }
        }
    }
    Ok(Led { opens, direct })
}

/// One that the program may open again by `/dev/stdout`, and that the daemon reads without being
/// held up.
fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let (read, write) = std::io::pipe().map_err(no_descriptor)?;
    launch::reopenable(&write, 0o622).map_err(no_descriptor)?;
    rustix::io::ioctl_fionbio(&read, true).map_err(|e| no_descriptor(e.into()))?;
    Ok((read.into(), write.into()))
}

fn terminal(extras: &Extras) -> OpenHow {
    match extras.terminal {
        Terminal::IsRefused => OpenHow::Terminal,
        Terminal::IsAwaited => OpenHow::TerminalWhenFree,
        Terminal::IsTaken => OpenHow::TerminalByForce,
    }
}

fn null() -> Result<OwnedFd, Error> {
    let opened = File::options().read(true).write(true).open("/dev/null");
    opened.map(OwnedFd::from).map_err(no_descriptor)
}

fn given(extras: &Extras, name: &str) -> Result<OwnedFd, Error> {
    let mut all = extras.streams.iter().chain(&extras.descriptors);
    match all.find(|descriptor| descriptor.name == name) {
        Some(descriptor) => descriptor.fd.try_clone().map_err(no_descriptor),
        None => Err(Error::invalid(
            "executable.spec.streams",
            format!("no descriptor {name:?} came along"),
        )),
    }
}

fn no_descriptor(error: std::io::Error) -> Error {
    let message = format!("a standard stream could not be made: {error}");
    Error::new(Reason::Internal, message).errno(error.raw_os_error().unwrap_or_default())
}

/// Class and level for disks: ioprio_set(2).
pub(super) fn io_priority(scheduling: &Scheduling) -> Option<(u8, u8)> {
    let level = scheduling
        .io_priority
        .and_then(|level| u8::try_from(level).ok());
    let class = match (scheduling.io_class, level) {
        (None, None) => return None,
        (Some(IoClass::Realtime), _) => 1,
        (None | Some(IoClass::BestEffort), _) => 2,
        // It has no levels.
        (Some(IoClass::Idle), _) => return Some((3, 0)),
    };
    Some((class, level.unwrap_or(USUAL_LEVEL)))
}

/// The kernel's numbers of a policy and its priority: sched(7).
pub(super) fn policy(scheduling: &Scheduling) -> Option<(u8, u8)> {
    let policy = match scheduling.policy? {
        CpuPolicy::Other => 0,
        CpuPolicy::Fifo => 1,
        CpuPolicy::RoundRobin => 2,
        CpuPolicy::Batch => 3,
        CpuPolicy::Idle => 5,
    };
    let priority = scheduling.priority.unwrap_or_default();
    Some((policy, u8::try_from(priority).unwrap_or_default()))
}

/// Nanoseconds; 0: unchanged.
pub(super) fn timer_slack(scheduling: &Scheduling) -> u64 {
    let slack = scheduling.timer_slack.map(|slack| slack.as_nanos());
    u64::try_from(slack.unwrap_or_default()).unwrap_or(u64::MAX)
}

pub(super) fn keyring(keyring: Keyring) -> WireKeyring {
    match keyring {
        Keyring::Private => WireKeyring::Private,
        Keyring::Shared => WireKeyring::Shared,
        Keyring::Inherit => WireKeyring::Inherit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extras::Descriptor;

    #[test]
    fn each_stream_leads_where_it_is_to() {
        let (reader, _) = std::io::pipe().unwrap();
        let streams = Streams {
            stdin: Stream::Descriptor("a".into()),
            stdout: Stream::Append("/log".into()),
            stderr: Stream::Inherit,
        };
        let extras = Extras {
            descriptors: vec![Descriptor {
                name: "a".into(),
                fd: reader.into(),
            }],
            ..Default::default()
        };
        let mut fds = [null().unwrap(), null().unwrap(), null().unwrap()];
        let opens = lead(&streams, &extras, &mut fds).unwrap().opens;
        let shown: Vec<_> = opens.iter().map(|open| (open.stream, open.how)).collect();
        assert_eq!(shown, [(1, OpenHow::Append), (2, OpenHow::Same)]);
        let kind = rustix::fs::fstat(&fds[0]).unwrap().st_mode;
        let kind = rustix::fs::FileType::from_raw_mode(kind);
        assert_eq!(kind, rustix::fs::FileType::Fifo);
        assert!(lead(&streams, &Extras::default(), &mut fds).is_err());
    }

    #[test]
    fn priorities_have_the_numbers_of_the_kernel() {
        let io = |io_class, io_priority| {
            io_priority_of(Scheduling {
                io_class,
                io_priority,
                ..Default::default()
            })
        };
        fn io_priority_of(scheduling: Scheduling) -> Option<(u8, u8)> {
            io_priority(&scheduling)
        }
        assert_eq!(io(None, None), None);
        assert_eq!(io(None, Some(7)), Some((2, 7)));
        assert_eq!(io(Some(IoClass::Realtime), None), Some((1, 4)));
        assert_eq!(io(Some(IoClass::Idle), None), Some((3, 0)));
        let batch = Scheduling {
            policy: Some(CpuPolicy::Batch),
            ..Default::default()
        };
        assert_eq!(policy(&batch), Some((3, 0)));
    }
}
