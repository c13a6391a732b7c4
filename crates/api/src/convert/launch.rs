// SPDX-License-Identifier: Apache-2.0
//! The parts of an executable's spec that services of a machine have, from the wire and back: main
//! process and kill mode, standard streams, scheduling.

use model::error::{Error, Result, Within};
use model::launch::{
    CpuPolicy, Ending, IoClass, Keyring, KillMode, MainProcess, Personality, Scheduling, Stream,
    Streams,
};

use super::scalar::{enumeration, maybe_duration, to_duration};
use crate::runtime::v0 as wire;

pub(super) fn ending(message: wire::Ending) -> Result<Ending> {
    use wire::ending::{KillMode as WireMode, MainProcess as WireMain};
    Ok(Ending {
        main_process: match enumeration("main_process", message.main_process)? {
            WireMain::Unspecified | WireMain::Executed => MainProcess::Executed,
            WireMain::PidFile => MainProcess::PidFile,
            WireMain::Guessed => MainProcess::Guessed,
            WireMain::None => MainProcess::None,
        },
        pid_file: message.pid_file,
        kill_mode: match enumeration("kill_mode", message.kill_mode)? {
            WireMode::Unspecified => KillMode::Descent,
            WireMode::ControlGroup => KillMode::ControlGroup,
            WireMode::Mixed => KillMode::Mixed,
            WireMode::Process => KillMode::Process,
            WireMode::None => KillMode::None,
        },
        final_signal: message.final_signal,
        send_sighup: message.send_sighup,
        send_sigkill: message.send_sigkill,
    })
}

pub(super) fn to_ending(ending: &Ending) -> wire::Ending {
    use wire::ending::{KillMode as WireMode, MainProcess as WireMain};
    let main_process = match ending.main_process {
        MainProcess::Executed => WireMain::Executed,
        MainProcess::PidFile => WireMain::PidFile,
        MainProcess::Guessed => WireMain::Guessed,
        MainProcess::None => WireMain::None,
    };
    let kill_mode = match ending.kill_mode {
        KillMode::Descent => WireMode::Unspecified,
        KillMode::ControlGroup => WireMode::ControlGroup,
        KillMode::Mixed => WireMode::Mixed,
        KillMode::Process => WireMode::Process,
        KillMode::None => WireMode::None,
    };
    wire::Ending {
        main_process: main_process.into(),
        pid_file: ending.pid_file.clone(),
        kill_mode: kill_mode.into(),
        final_signal: ending.final_signal.clone(),
        send_sighup: ending.send_sighup,
        send_sigkill: ending.send_sigkill,
    }
}

pub(super) fn streams(message: wire::Streams) -> Result<Streams> {
    let one = |field, message: Option<wire::StandardStream>| {
        message.map_or(Ok(Stream::Log), |message| stream(message).within(field))
    };
    Ok(Streams {
        stdin: one("stdin", message.stdin)?,
        stdout: one("stdout", message.stdout)?,
        stderr: one("stderr", message.stderr)?,
    })
}

fn stream(message: wire::StandardStream) -> Result<Stream> {
    use wire::standard_stream::Kind;
    let path = message.path;
    let stream = match enumeration("kind", message.kind)? {
        Kind::Unspecified => Stream::Log,
        Kind::Null => Stream::Null,
        Kind::File => Stream::File(path.clone()),
        Kind::Append => Stream::Append(path.clone()),
        Kind::Truncate => Stream::Truncate(path.clone()),
        Kind::Tty => Stream::Tty(path.clone()),
        Kind::Inherit => Stream::Inherit,
        Kind::Attached => Stream::Attached,
        Kind::Descriptor => Stream::Descriptor(path.clone()),
    };
    match stream.target() == path {
        true => Ok(stream),
        false => Err(Error::invalid("path", "has no meaning for this kind")),
    }
}

pub(super) fn to_streams(streams: &Streams) -> wire::Streams {
    let one = |stream: &Stream| (*stream != Stream::Log).then(|| to_stream(stream));
    wire::Streams {
        stdin: one(&streams.stdin),
        stdout: one(&streams.stdout),
        stderr: one(&streams.stderr),
    }
}

fn to_stream(stream: &Stream) -> wire::StandardStream {
    use wire::standard_stream::Kind;
    let kind = match stream {
        Stream::Log => Kind::Unspecified,
        Stream::Null => Kind::Null,
        Stream::File(_) => Kind::File,
        Stream::Append(_) => Kind::Append,
        Stream::Truncate(_) => Kind::Truncate,
        Stream::Tty(_) => Kind::Tty,
        Stream::Inherit => Kind::Inherit,
        Stream::Attached => Kind::Attached,
        Stream::Descriptor(_) => Kind::Descriptor,
    };
    wire::StandardStream {
        kind: kind.into(),
        path: stream.target().to_owned(),
    }
}

pub(super) fn scheduling(message: wire::Scheduling) -> Result<Scheduling> {
    use wire::scheduling::{IoClass as WireClass, Policy};
    Ok(Scheduling {
        io_class: match enumeration("io_class", message.io_class)? {
            WireClass::Unspecified => None,
            WireClass::Realtime => Some(IoClass::Realtime),
            WireClass::BestEffort => Some(IoClass::BestEffort),
            WireClass::Idle => Some(IoClass::Idle),
        },
        io_priority: message.io_priority,
        policy: match enumeration("policy", message.policy)? {
            Policy::Unspecified => None,
            Policy::Other => Some(CpuPolicy::Other),
            Policy::Batch => Some(CpuPolicy::Batch),
            Policy::Idle => Some(CpuPolicy::Idle),
            Policy::Fifo => Some(CpuPolicy::Fifo),
            Policy::RoundRobin => Some(CpuPolicy::RoundRobin),
        },
        priority: message.priority,
        reset_on_fork: message.reset_on_fork,
        timer_slack: maybe_duration("timer_slack", message.timer_slack.as_ref())?,
    })
}

pub(super) fn to_scheduling(scheduling: &Scheduling) -> wire::Scheduling {
    use wire::scheduling::{IoClass as WireClass, Policy};
    let io_class = match scheduling.io_class {
        None => WireClass::Unspecified,
        Some(IoClass::Realtime) => WireClass::Realtime,
        Some(IoClass::BestEffort) => WireClass::BestEffort,
        Some(IoClass::Idle) => WireClass::Idle,
    };
    let policy = match scheduling.policy {
        None => Policy::Unspecified,
        Some(CpuPolicy::Other) => Policy::Other,
        Some(CpuPolicy::Batch) => Policy::Batch,
        Some(CpuPolicy::Idle) => Policy::Idle,
        Some(CpuPolicy::Fifo) => Policy::Fifo,
        Some(CpuPolicy::RoundRobin) => Policy::RoundRobin,
    };
    wire::Scheduling {
        io_class: io_class.into(),
        io_priority: scheduling.io_priority,
        policy: policy.into(),
        priority: scheduling.priority,
        reset_on_fork: scheduling.reset_on_fork,
        timer_slack: scheduling.timer_slack.map(to_duration),
    }
}

pub(super) fn keyring(number: i32) -> Result<Keyring> {
    use wire::KeyringMode as Wire;
    Ok(match enumeration("keyring", number)? {
        Wire::Unspecified | Wire::Private => Keyring::Private,
        Wire::Shared => Keyring::Shared,
        Wire::Inherit => Keyring::Inherit,
    })
}

pub(super) fn to_keyring(keyring: Keyring) -> wire::KeyringMode {
    use wire::KeyringMode as Wire;
    match keyring {
        Keyring::Private => Wire::Unspecified,
        Keyring::Shared => Wire::Shared,
        Keyring::Inherit => Wire::Inherit,
    }
}

pub(super) fn personality(number: i32) -> Result<Personality> {
    use wire::Personality as Wire;
    Ok(match enumeration("personality", number)? {
        Wire::Unspecified | Wire::Linux => Personality::Linux,
        Wire::Linux32 => Personality::Linux32,
    })
}

pub(super) fn to_personality(personality: Personality) -> wire::Personality {
    match personality {
        Personality::Linux => wire::Personality::Unspecified,
        Personality::Linux32 => wire::Personality::Linux32,
    }
}
