// SPDX-License-Identifier: Apache-2.0
//! Becoming the user of a process: ids, capabilities, limits, scheduling. Prepared by the runtime
//! ([`Prepared::of`]), done by the container's process, for `create` and `exec` alike.

use std::path::Path;
use std::sync::OnceLock;

use kernel::caps::{self, Capability, CapabilitySet, ThreadSets};
use kernel::rlimit::{self, Limit, Resource};
use kernel::sched::{self, Policy};
use kernel::{process, signal};
use rustix::io::Errno;

use super::memory_policy;
use super::seccomp::Filter;
use crate::config::linux::{Linux, Personality};
use crate::config::{Capabilities, IoPriority, Process, Scheduler};
use crate::error::{Doing, Result, refuse};
use crate::log;
use crate::root::tree::{self, Tree};

/// The five sets.
#[derive(Clone, Copy, Debug)]
struct Sets {
    bounding: CapabilitySet,
    thread: ThreadSets,
    ambient: CapabilitySet,
}

/// A process's privileges, checked.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) process: Process,
    sets: Option<Sets>,
    limits: Vec<(Resource, Limit)>,
    policy: Option<Policy>,
    io_class: Option<(u32, u32)>,
    persona: Option<u64>,
    memory: Option<memory_policy::Policy>,
    pub(crate) filter: Option<Filter>,
}

/// What the runtime's own limit of descriptors was.
static BEFORE: OnceLock<Limit> = OnceLock::new();

/// Lets this process have as many descriptors as it may: a container may have more mounts than the
/// usual limit. The container's process gets back what was there before
/// ([`Prepared::limit_descriptors`]).
pub(crate) fn raise_descriptors() -> Result<()> {
    let before = rlimit::get(Resource::NOFILE)?;
    if before.soft < before.hard {
        let all = Limit {
            soft: before.hard,
            ..before
        };
        rlimit::set(Resource::NOFILE, all)?;
        // Once a process.
        let _ = BEFORE.set(before);
    }
    Ok(())
}

impl Prepared {
    /// Checks and translates all words.
    pub(crate) fn of(process: &Process, filter: Option<Filter>, linux: &Linux) -> Result<Prepared> {
        crate::config::check::process(process)?;
        let mut limits = Vec::new();
        for limit in &process.rlimits {
            let Ok(resource) = limit.kind.parse::<Resource>() else {
                return refuse(format!(
                    "process.rlimits: invalid rlimit type {:?}",
                    limit.kind
                ));
            };
            if limits.iter().any(|(known, _)| *known == resource) {
                return refuse(format!("process.rlimits: {} is there twice", limit.kind));
            }
            let (soft, hard) = (limit.soft, limit.hard);
            limits.push((resource, Limit { soft, hard }));
        }
        let memory = linux.memory_policy.as_ref();
        Ok(Prepared {
            process: process.clone(),
            sets: process.capabilities.as_ref().map(sets),
            limits,
            policy: process.scheduler.as_ref().map(policy).transpose()?,
            io_class: process.io_priority.as_ref().map(io_class).transpose()?,
            persona: linux.personality.as_ref().map(persona).transpose()?,
            memory: memory.map(memory_policy::Policy::of).transpose()?,
            filter,
        })
    }

    /// What the runtime does to the process from outside, with its own rights.
    pub(crate) fn limit(&self, pid: i32) -> Result<()> {
        let own = rlimit::get(Resource::NOFILE)?;
        for (resource, limit) in &self.limits {
            let mut limit = limit;
            // It needs more of them until it is ready, and lowers it then.
            let most = Limit {
                soft: limit.hard,
                hard: limit.hard,
            };
            if *resource == Resource::NOFILE {
                if limit.hard <= own.hard {
                    continue;
                }
                limit = &most;
            }
            rlimit::set_of(pid, *resource, *limit).doing("process.rlimits")?;
        }
        let Some(score) = self.process.oom_score_adj else {
            return Ok(());
        };
        let score = i16::try_from(score).unwrap_or(0);
        match sched::set_oom_score_adj(pid, score) {
            // A user that isn't root may not lower it: runc leaves it then, too.
            Err(error)
                if process::effective_uid() != 0 && error.is(Errno::ACCESS.raw_os_error()) =>
            {
                Ok(())
            }
            other => other.doing("process.oomScoreAdj"),
        }
    }

    /// Whether security modules have a word.
    pub(crate) fn is_labelled(&self) -> bool {
        !self.process.apparmor_profile.is_empty() || !self.process.selinux_label.is_empty()
    }

    /// What needs rights that are about to go. `proc` is the node's, for labels.
    pub(crate) fn before(&self, proc: Option<&Tree>) -> Result<()> {
        if let Some(policy) = &self.policy {
            sched::set_policy(policy).doing("process.scheduler")?;
        }
        if let Some((class, level)) = self.io_class {
            sched::set_io_priority(class, level).doing("process.ioPriority")?;
        }
        if let Some(persona) = self.persona {
            sched::set_personality(persona).doing("linux.personality")?;
        }
        if let Some(memory) = &self.memory {
            memory.set()?;
        }
        if self.process.no_new_privileges {
            process::set_no_new_privileges()?;
        }
        match proc {
            Some(proc) => self.label(proc),
            None => Ok(()),
        }
    }

    /// The limit of descriptors, when all but the program's are closed.
    pub(crate) fn limit_descriptors(&self) -> Result<()> {
        let own = self
            .limits
            .iter()
            .find(|(resource, _)| *resource == Resource::NOFILE);
        match own.map(|(_, limit)| limit).or(BEFORE.get()) {
            Some(limit) => rlimit::set(Resource::NOFILE, *limit).doing("process.rlimits"),
            None => Ok(()),
        }
    }

    /// Labels of security modules, for the exec.
    fn label(&self, proc: &Tree) -> Result<()> {
        let (apparmor, selinux) = (&self.process.apparmor_profile, &self.process.selinux_label);
        if !apparmor.is_empty() {
            let on = std::fs::read("/sys/module/apparmor/parameters/enabled");
            if !on.is_ok_and(|text| text.first() == Some(&b'Y')) && !has_attribute(proc) {
                return refuse(format!(
                    "process.apparmorProfile: {apparmor:?} is asked for and this kernel has no \
                     AppArmor"
                ));
            }
            let word = format!("exec {apparmor}");
            let own = "self/attr/apparmor/exec";
            tree::write_proc(proc, own, word.as_bytes())
                .or_else(|_| tree::write_proc(proc, "self/attr/exec", word.as_bytes()))
                .doing("process.apparmorProfile")?;
        }
        if !selinux.is_empty() {
            if !Path::new("/sys/fs/selinux/enforce").exists() {
                return refuse(
                    "process.selinuxLabel: selinux label is specified in config, but selinux is \
                     disabled or not supported",
                );
            }
            tree::write_proc(proc, "self/attr/exec", selinux.as_bytes())
                .doing("process.selinuxLabel")?;
        }
        Ok(())
    }

    /// Becomes the user. Without `no_new_privileges` the filter comes first: the kernel wants a
    /// capability for it that is about to go.
    pub(crate) fn become_user(&self, filter: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.process.no_new_privileges {
            filter()?;
        }
        let user = &self.process.user;
        own_streams(user.uid)?;
        if let Some(sets) = &self.sets {
            caps::limit_bounding(sets.bounding).doing("process.capabilities.bounding")?;
        }
        process::set_keep_capabilities(true)?;
        set_groups(&user.additional_gids)?;
        process::set_gid(user.gid).doing(format_args!("process.user.gid: {}", user.gid))?;
        process::set_uid(user.uid).doing(format_args!("process.user.uid: {}", user.uid))?;
        process::set_keep_capabilities(false)?;
        process::set_dumpable(false)?;
        process::set_umask(user.umask.unwrap_or(0o022));
        Ok(())
    }

    /// Lets go of the capabilities that the process isn't to have: after the working directory was
    /// entered, which may need them.
    pub(crate) fn drop_capabilities(&self) -> Result<()> {
        let sets = self.sets.unwrap_or(Sets {
            bounding: CapabilitySet::EMPTY,
            thread: ThreadSets::default(),
            ambient: CapabilitySet::EMPTY,
        });
        if self.sets.is_none() && self.process.user.uid == 0 {
            // Nothing is said: root has what the bounding set has.
            return Ok(());
        }
        caps::set(&sets.thread).doing("process.capabilities")?;
        caps::set_ambient(sets.ambient).doing("process.capabilities.ambient")
    }

    /// Signals as a program expects them.
    pub(crate) fn reset_signals() -> Result<()> {
        signal::reset_dispositions()?;
        signal::set_mask(signal::SignalSet::EMPTY)?;
        Ok(())
    }
}

/// Within the container AppArmor's parameter can't be seen; its attribute can.
fn has_attribute(proc: &Tree) -> bool {
    let path = Path::new("self/attr/apparmor/exec");
    proc.find(path).is_ok_and(|found| found.is_some())
}

/// In a user namespace of an ordinary user groups can't be set, and there are none to be dropped.
fn set_groups(groups: &[u32]) -> Result<()> {
    let denied = std::fs::read("/proc/self/setgroups").is_ok_and(|text| text.starts_with(b"deny"));
    match (denied, groups.is_empty()) {
        (true, true) => Ok(()),
        _ => process::set_groups(groups).doing("process.user.additionalGids"),
    }
}

/// The user may open its standard streams anew by name.
fn own_streams(uid: u32) -> Result<()> {
    let null = rustix::fs::makedev(1, 3);
    for stream in [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ] {
        let stat = match rustix::fs::fstat(stream) {
            Ok(stat) => stat,
            Err(Errno::BADF) => continue,
            Err(errno) => return Err(errno).doing("fstat"),
        };
        if stat.st_uid == uid || stat.st_rdev == null {
            continue;
        }
        match rustix::fs::fchown(stream, Some(rustix::fs::Uid::from_raw(uid)), None) {
            // Of another user namespace, or of a file system that can't be written.
            Ok(()) | Err(Errno::INVAL | Errno::PERM | Errno::ROFS) => {}
            Err(errno) => return Err(errno).doing("fchown of a standard stream"),
        }
    }
    Ok(())
}

/// Names that the kernel hasn't got are left out, with a warning.
fn sets(words: &Capabilities) -> Sets {
    let known = caps::bounding();
    let set = |words: &[String]| {
        let each = words
            .iter()
            .filter_map(|word| match word.parse::<Capability>() {
                Ok(capability) if known.has(capability) => Some(capability),
                _ => {
                    log::warn(format!("ignoring unknown or unavailable capability {word}"));
                    None
                }
            });
        each.collect::<CapabilitySet>()
    };
    let permitted = set(&words.permitted);
    let inheritable = set(&words.inheritable);
    let wanted = set(&words.ambient);
    let ambient = wanted.intersection(permitted).intersection(inheritable);
    for lost in wanted.iter().filter(|one| !ambient.has(*one)) {
        log::warn(format!(
            "can't raise ambient capability {lost}: it isn't permitted and inheritable"
        ));
    }
    Sets {
        bounding: set(&words.bounding),
        thread: ThreadSets {
            effective: set(&words.effective).intersection(permitted),
            permitted,
            inheritable,
        },
        ambient,
    }
}

fn persona(personality: &Personality) -> Result<u64> {
    if !personality.flags.is_empty() {
        return refuse("linux.personality.flags: none are defined");
    }
    match personality.domain.as_str() {
        "LINUX" => Ok(0),
        "LINUX32" => Ok(0x0008),
        other => refuse(format!("linux.personality.domain: {other:?}")),
    }
}

fn policy(words: &Scheduler) -> Result<Policy> {
    let policy = match words.policy.as_str() {
        "SCHED_OTHER" => 0,
        "SCHED_FIFO" => 1,
        "SCHED_RR" => 2,
        "SCHED_BATCH" => 3,
        "SCHED_ISO" => 4,
        "SCHED_IDLE" => 5,
        "SCHED_DEADLINE" => 6,
        other => {
            return refuse(format!(
                "process.scheduler.policy: unknown policy {other:?}"
            ));
        }
    };
    let mut flags = 0;
    for word in &words.flags {
        flags |= match word.as_str() {
            "SCHED_FLAG_RESET_ON_FORK" => 0x01,
            "SCHED_FLAG_RECLAIM" => 0x02,
            "SCHED_FLAG_DL_OVERRUN" => 0x04,
            "SCHED_FLAG_KEEP_POLICY" => 0x08,
            "SCHED_FLAG_KEEP_PARAMS" => 0x10,
            "SCHED_FLAG_UTIL_CLAMP_MIN" => 0x20,
            "SCHED_FLAG_UTIL_CLAMP_MAX" => 0x40,
            other => return refuse(format!("process.scheduler.flags: unknown flag {other:?}")),
        };
    }
    let mut out = Policy::default();
    out.policy = policy;
    out.flags = flags;
    out.nice = words.nice;
    out.priority = u32::try_from(words.priority).unwrap_or(0);
    out.runtime_ns = words.runtime;
    out.deadline_ns = words.deadline;
    out.period_ns = words.period;
    Ok(out)
}

fn io_class(words: &IoPriority) -> Result<(u32, u32)> {
    let class = match words.class.as_str() {
        "IOPRIO_CLASS_RT" => 1,
        "IOPRIO_CLASS_BE" => 2,
        "IOPRIO_CLASS_IDLE" => 3,
        other => return refuse(format!("process.ioPriority.class: unknown class {other:?}")),
    };
    match words.priority {
        level @ 0..=7 => Ok((class, level)),
        _ => refuse("process.ioPriority.priority: 0 to 7"),
    }
}
