// SPDX-License-Identifier: Apache-2.0
//! From what is asked for to what a cell-init is told: an effective spec as a `Launch` with its
//! descriptors. Nothing runs yet.

use std::os::fd::OwnedFd;

use init::protocol::{Launch, Pids, Principal as WirePrincipal, Stdio};
use model::error::{Error, Reason};
use model::executable::{Effective, Principal};
use model::launch::Personality;
use model::status::Meta;

use super::streams;
use crate::direct::Ends;
use crate::extras::Extras;
use crate::ports::LogSource;
use crate::record::{self, Written};
use crate::seccomp::Compiled;
use crate::{listener, lsm};

/// What goes to the cell-init, and what stays with the daemon.
pub(crate) struct Prepared {
    pub(crate) launch: Launch,
    /// After the leaf, in the protocol's order.
    pub(crate) fds: Vec<OwnedFd>,
    /// Where the output will come out; none yet of a terminal, which the cell-init opens.
    pub(crate) source: Option<LogSource>,
    /// The write end of standard input.
    pub(crate) input: Option<OwnedFd>,
    /// What an attacher reads.
    pub(crate) direct: Ends,
}

struct Streams {
    stdio: Stdio,
    fds: Vec<OwnedFd>,
    source: Option<LogSource>,
    input: Option<OwnedFd>,
}

/// Makes the streams and the message.
pub(crate) fn prepare(
    meta: &Meta,
    effective: &Effective,
    pids: Pids,
    Written { record, file }: Written,
    seccomp: Compiled,
    extras: Extras,
) -> Result<Prepared, Error> {
    let mut streams = match effective.terminal {
        Some(size) => terminal(size.rows, size.columns),
        None => pipes(effective.stdin)?,
    };
    let led = streams::lead(&effective.streams, &extras, &mut streams.fds)?;
    let names = extras.descriptors.iter().map(|it| it.name.clone());
    let names: Vec<String> = names.collect();
    let (listener, listens) = listener::expect(seccomp.listener, meta)?.unzip();
    let scheduling = &effective.scheduling;
    let launch = Launch {
        uid: record::wire(meta.uid),
        pids,
        argv: bytes(&effective.argv),
        env: variables(effective),
        cwd: effective.cwd.clone().into_bytes(),
        user: Some(principal(&effective.user)),
        group: effective.group.as_ref().map(principal),
        groups: effective.groups.iter().map(principal).collect(),
        member: effective.member,
        umask: effective.umask,
        rlimits: effective.rlimits.clone(),
        nice: effective.nice,
        oom_score_adj: Some(effective.oom_score_adj),
        affinity: mask(&effective.cpu_affinity),
        bounding: effective.bounding.bits(),
        ambient: effective.ambient.bits(),
        no_new_privileges: effective.no_new_privileges,
        seccomp: seccomp.program,
        seccomp_log: seccomp.log,
        listener,
        stdio: streams.stdio,
        keep_stdin: effective.stdin && streams.stdio == Stdio::Pipes,
        passed: u16::try_from(names.len()).unwrap_or(u16::MAX),
        listens: listens.is_some(),
        forks: effective.ending.main_process.forks(),
        stop_signal: effective.stop_signal.number(),
        grace_ms: u32::try_from(effective.stop_grace.as_millis()).unwrap_or(u32::MAX),
        record,
        program: effective.program.clone().map(String::into_bytes),
        cwd_optional: effective.cwd_optional,
        opens: led.opens,
        names,
        nonblocking: extras.nonblocking,
        pid_env: extras.pid_env,
        io_priority: streams::io_priority(scheduling),
        policy: streams::policy(scheduling),
        reset_on_fork: scheduling.reset_on_fork,
        timer_slack_ns: streams::timer_slack(scheduling),
        ignore_sigpipe: effective.ignore_sigpipe,
        keyring: streams::keyring(effective.keyring),
        linux32: effective.personality == Personality::Linux32,
        label: lsm::label(effective)?,
        sandbox: extras.sandbox,
        before: None,
    };
    let passed = extras.descriptors.into_iter().map(|it| it.fd);
    streams.fds.extend(passed.chain(listens).chain(file));
    let Streams {
        fds, source, input, ..
    } = streams;
    Ok(Prepared {
        launch,
        fds,
        source,
        input,
        direct: led.direct,
    })
}

fn bytes(texts: &[String]) -> Vec<Vec<u8>> {
    let texts = texts.iter();
    texts.map(|text| text.clone().into_bytes()).collect()
}

fn variables(effective: &Effective) -> Vec<Vec<u8>> {
    let pairs = effective.env.iter();
    pairs
        .map(|(k, v)| format!("{k}={v}").into_bytes())
        .collect()
}

fn principal(who: &Principal) -> WirePrincipal {
    match who {
        Principal::Id(id) => WirePrincipal::Id(*id),
        Principal::Name(name) => WirePrincipal::Name(name.clone()),
    }
}

/// One bit per CPU.
fn mask(cpus: &[u32]) -> Vec<u8> {
    let mut mask = Vec::new();
    for cpu in cpus {
        let byte = usize::try_from(cpu / 8).unwrap_or(usize::MAX);
        if byte >= mask.len() {
            mask.resize(byte.saturating_add(1), 0);
        }
        if let Some(bits) = mask.get_mut(byte) {
            *bits |= 1 << (cpu % 8);
        }
    }
    mask
}

fn pipes(keep_stdin: bool) -> Result<Streams, Error> {
    let failed = |e: std::io::Error| {
        Error::new(
            Reason::Internal,
            format!("the pipes of the program could not be made: {e}"),
        )
        .errno(e.raw_os_error().unwrap_or_default())
    };
    let (stdout, stdout_write) = std::io::pipe().map_err(failed)?;
    let (stderr, stderr_write) = std::io::pipe().map_err(failed)?;
    let (stdin, write) = match keep_stdin {
        true => {
            let (read, write) = std::io::pipe().map_err(failed)?;
            (OwnedFd::from(read), Some(OwnedFd::from(write)))
        }
        false => (
            std::fs::File::open("/dev/null").map_err(failed)?.into(),
            None,
        ),
    };
    reopenable(&stdout_write, 0o622)
        .and_then(|()| reopenable(&stderr_write, 0o622))
        .and_then(|()| {
            write
                .as_ref()
                .map_or(Ok(()), |write| reopenable(write, 0o644))
        })
        .map_err(failed)?;
    let stdout = OwnedFd::from(stdout);
    let stderr = OwnedFd::from(stderr);
    let mut fds = vec![
        stdin,
        stdout_write.into(),
        stderr_write.into(),
        stdout.try_clone().map_err(failed)?,
        stderr.try_clone().map_err(failed)?,
    ];
    let input = match write {
        Some(write) => {
            fds.push(write.try_clone().map_err(failed)?);
            Some(write)
        }
        None => None,
    };
    let source = Some(LogSource::Pipes { stdout, stderr });
    Ok(Streams {
        stdio: Stdio::Pipes,
        fds,
        source,
        input,
    })
}

/// Lets a program open `/dev/stdout` and its like, as servers do for their logs: the pipe is the
/// node's, which to the program is another user. No other process reaches it: the way is through
/// `/proc/PID/fd`, which is the program's own.
pub(super) fn reopenable(pipe: impl std::os::fd::AsFd, mode: u32) -> std::io::Result<()> {
    Ok(rustix::fs::fchmod(
        pipe,
        rustix::fs::Mode::from_raw_mode(mode),
    )?)
}

/// The cell-init makes it, of the cell's own devpts, and hands over its master.
fn terminal(rows: u16, columns: u16) -> Streams {
    Streams {
        stdio: Stdio::Terminal { rows, columns },
        fds: Vec::new(),
        source: None,
        input: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_affinity_mask_has_a_bit_per_cpu() {
        assert_eq!(mask(&[]), Vec::<u8>::new());
        assert_eq!(mask(&[0, 3, 9]), vec![0b1001, 0b10]);
    }

    /// Each of the two has its own word for what a container has by default.
    #[test]
    fn the_capabilities_of_a_container_are_the_kernels_numbers() {
        use kernel::caps::CapabilitySet;
        let default = model::capability::CapabilitySet::container_default();
        assert_eq!(default.bits(), CapabilitySet::CONTAINER.0);
        let all = model::capability::CapabilitySet::ALL;
        assert_eq!(all.bits(), CapabilitySet::ALL.0);
    }
}
