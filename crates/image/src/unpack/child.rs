// SPDX-License-Identifier: Apache-2.0
//! The unpacker's process: `auraed unpack OPTIONS`. Standard input is the layer's stream, the
//! current folder the one to fill, standard output takes lines of JSON (`input`). Before it reads a
//! byte it gives up every other file, the network, and all capabilities but those for owners,
//! modes, nodes and extended attributes; its memory has a bound.

use std::os::fd::AsFd;
use std::process::ExitCode;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

use super::error::UnpackError;
use super::input::{Growing, Input, Plain, tell};
use super::{Options, Overlay, Summary, unpack};

/// Bytes of address space: zstd's largest window, the buffers, the program itself.
const MEMORY: u64 = 1 << 30;

/// Descriptors: one for each level of a tree that is removed, and those that are always there.
const DESCRIPTORS: u64 = super::names::MAX_DEPTH as u64 + 64;

/// What the process tells its parent, a line each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// So many bytes of its stream.
    Read(u64),
    Done(Summary),
    Failed(UnpackError),
}

/// Unpacks standard input into the current folder; `options` is the JSON of [`Options`], as
/// [`super::Unpacking`] passes it. To be called by a process with one thread, early in `main`.
pub fn command(options: &str) -> ExitCode {
    let report = match run(options) {
        Ok(summary) => Report::Done(summary),
        Err(error) => Report::Failed(error),
    };
    match tell(&report) {
        Ok(()) => ExitCode::SUCCESS,
        // The parent is gone.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Says why nothing was unpacked: for what fails before [`command`].
pub fn refused(problem: &str) -> ExitCode {
    let report = Report::Failed(UnpackError::Kernel {
        doing: "begin to unpack in".to_owned(),
        entry: ".".to_owned(),
        problem: problem.to_owned(),
    });
    // Without a parent no one reads it.
    let _ = tell(&report);
    ExitCode::FAILURE
}

fn run(options: &str) -> Result<Summary, UnpackError> {
    let options: Options = serde_json::from_str(options)
        .map_err(|error| UnpackError::stream(format!("the options can't be read: {error}")))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::open(".", flags, Mode::empty()).map_err(kernel("open"))?;
    confine(&root, &options)?;
    match options.growing {
        true => unpack(Input::new(Growing::default()), root, &options),
        false => unpack(Input::new(Plain), root, &options),
    }
}

fn kernel(doing: &'static str) -> impl Fn(Errno) -> UnpackError {
    move |errno| UnpackError::kernel(doing, b".", errno)
}

fn confine(root: impl AsFd, options: &Options) -> Result<(), UnpackError> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Nofile, DESCRIPTORS),
        (Resource::As, MEMORY),
    ] {
        let hard = rustix::process::getrlimit(resource)
            .maximum
            .unwrap_or(u64::MAX)
            .min(most);
        let limit = Rlimit {
            current: Some(hard),
            maximum: Some(hard),
        };
        rustix::process::setrlimit(resource, limit).map_err(kernel("limit"))?;
    }
    let in_root = match rustix::process::chroot(".") {
        Ok(()) => true,
        Err(Errno::PERM) => false,
        Err(errno) => return Err(kernel("change the root to")(errno)),
    };
    rustix::thread::set_no_new_privs(true).map_err(kernel("confine"))?;
    let refused = |problem: String| UnpackError::Kernel {
        doing: "confine the unpacker to".to_owned(),
        entry: ".".to_owned(),
        problem,
    };
    let locked = landlock(root).map_err(|error| refused(error.to_string()))?;
    if !in_root && !locked {
        let problem = "it may not change its root, and the kernel has no landlock";
        return Err(refused(problem.to_owned()));
    }
    capabilities(options).map_err(kernel("give up capabilities for"))
}

/// The folder, and no network. Whether the kernel has it; where it doesn't, the change of root
/// holds.
fn landlock(root: impl AsFd) -> Result<bool, landlock::RulesetError> {
    let abi = ABI::V6;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(landlock::Scope::from_all(abi))?
        .create()?
        .add_rule(PathBeneath::new(
            root,
            AccessFs::from_all(abi) & !AccessFs::Execute,
        ))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn capabilities(options: &Options) -> Result<(), Errno> {
    let mut needed = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::MKNOD
        | CapabilitySet::SETFCAP;
    if options.overlay == Overlay::Trusted {
        // For `trusted.overlay.opaque`.
        needed |= CapabilitySet::SYS_ADMIN;
    }
    let kept = rustix::thread::capabilities(None)?.permitted & needed;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)
}
