// SPDX-License-Identifier: Apache-2.0
//! What a pod's volumes may not be, and where a container may not have them.

use std::collections::BTreeSet;

use super::{MAX_LIST, check_label};
use crate::cell::{Propagation, check_target};
use crate::error::{Error, Result, Within};
use crate::pod::spec::Draft;
use crate::pod::sub_path;
use crate::pod::told::{self, FileFact};
use crate::pod::volume::{Empty, Files, Host, Medium, Source, Volume, VolumeMount, is_of_node};
use crate::quota::check_disk;
use crate::text::{check_absolute_path, check_count, check_relative_path};

/// The most files of a pod that tell facts: what they say takes no room in the spec.
const MAX_FACTS: usize = 64;

pub(super) fn check_volumes(pod: &Draft) -> Result<()> {
    check_count("volumes", pod.volumes.len(), MAX_LIST)?;
    let mut names = BTreeSet::new();
    for (i, volume) in pod.volumes.iter().enumerate() {
        let at = format!("volumes[{i}]");
        check_label("name", &volume.name).within(&at)?;
        if !names.insert(&volume.name) {
            return Err(Error::invalid(format!("{at}.name"), "is given twice"));
        }
        match &volume.source {
            Source::Empty(empty) => check_empty(empty).within("empty").within(&at)?,
            Source::Files(files) => check_files(pod, files).within("files").within(&at)?,
            Source::Host(host) => check_host(host).within("host").within(&at)?,
        }
    }
    check_facts(&pod.volumes)
}

/// All of a pod together.
fn check_facts(volumes: &[Volume]) -> Result<()> {
    let facts = volumes.iter().map(|volume| match &volume.source {
        Source::Files(files) => files.facts.len(),
        Source::Empty(_) | Source::Host(_) => 0,
    });
    let count: usize = facts.sum();
    if count <= MAX_FACTS {
        return Ok(());
    }
    let problem = format!("have {count} files with facts; a pod has at most {MAX_FACTS}");
    Err(Error::invalid("volumes", problem))
}

fn check_empty(empty: &Empty) -> Result<()> {
    match (empty.medium, empty.size_bytes) {
        (_, None) => Ok(()),
        (Medium::Disk, size) => check_disk("size_bytes", size),
        (Medium::Memory, Some(size)) if size < 4096 || i64::try_from(size).is_err() => {
            let problem = "must be at least 4096 and below 2^63";
            Err(Error::invalid("size_bytes", problem))
        }
        (Medium::Memory, Some(_)) => Ok(()),
    }
}

fn check_files(pod: &Draft, files: &Files) -> Result<()> {
    check_count("files", files.files.len() + files.facts.len(), MAX_LIST)?;
    check_count("modes", files.modes.len(), MAX_LIST)?;
    for path in files.files.keys() {
        check_path(&format!("files[{path:?}]"), path)?;
    }
    for (i, fact) in files.facts.iter().enumerate() {
        check_fact(pod, files, fact).within(&format!("facts[{i}]"))?;
    }
    check_twice(&files.facts)?;
    check_folders(files)?;
    for (path, mode) in &files.modes {
        let field = format!("modes[{path:?}]");
        check_path(&field, path)?;
        check_mode(&field, *mode)?;
    }
    check_mode("mode", files.effective_mode())
}

fn check_path(field: &str, path: &str) -> Result<()> {
    check_relative_path(field, path)?;
    match path.starts_with("..") {
        true => {
            let problem = "must not begin with `..`: names of the node's own do";
            Err(Error::invalid(field, problem))
        }
        false => Ok(()),
    }
}

fn check_mode(field: &str, mode: u32) -> Result<()> {
    match mode > 0o777 {
        true => Err(Error::invalid(field, "must be at most 0o777")),
        false => Ok(()),
    }
}

fn check_fact(pod: &Draft, files: &Files, fact: &FileFact) -> Result<()> {
    check_path("path", &fact.path)?;
    if files.files.contains_key(&fact.path) {
        let problem = "is a file with a text already: give one of them another path";
        return Err(Error::invalid("path", problem));
    }
    told::check(pod, &fact.from)
}

fn check_twice(facts: &[FileFact]) -> Result<()> {
    let mut paths = BTreeSet::new();
    match facts.iter().position(|fact| !paths.insert(&fact.path)) {
        None => Ok(()),
        Some(i) => {
            let problem = "is another fact's already: give one of them another path";
            Err(Error::invalid(format!("facts[{i}].path"), problem))
        }
    }
}

/// No file is a folder of another one.
fn check_folders(files: &Files) -> Result<()> {
    let texts = files.files.keys().map(String::as_str);
    let facts = files.facts.iter().map(|fact| fact.path.as_str());
    let all: BTreeSet<&str> = texts.chain(facts).collect();
    let is_below_a_file = |path: &str| {
        let above = path.match_indices('/').map(|(end, _)| path.split_at(end).0);
        above
            .into_iter()
            .find(|above| all.contains(above))
            .map(str::to_owned)
    };
    let Some(path) = all.iter().find_map(|path| is_below_a_file(path)) else {
        return Ok(());
    };
    let field = match files.facts.iter().position(|fact| fact.path == path) {
        Some(i) => format!("facts[{i}].path"),
        None => format!("files[{path:?}]"),
    };
    let problem = "is a file, and a folder of another one";
    Err(Error::invalid(field, problem))
}

fn check_host(host: &Host) -> Result<()> {
    check_absolute_path("path", &host.path)?;
    for (field, id) in [("owner_uid", host.owner_uid), ("owner_gid", host.owner_gid)] {
        if id == Some(u32::MAX) {
            return Err(Error::invalid(field, "must be below 4294967295"));
        }
    }
    match (host.owner_uid, host.owner_gid) {
        (None, Some(_)) => {
            let problem = "has a meaning only with owner_uid";
            Err(Error::invalid("owner_gid", problem))
        }
        (Some(_), _) if host.path == "/" => {
            let problem = "must not be given for '/', which can't be written from a pod";
            Err(Error::invalid("owner_uid", problem))
        }
        _ => Ok(()),
    }
}

/// Below what the node makes for a pod nothing is mounted.
fn check_propagation(pod: &Draft, mount: &VolumeMount) -> Result<()> {
    let of_node = is_of_node(&pod.volumes, &mount.volume);
    match mount.propagation == Propagation::None || of_node {
        true => Ok(()),
        false => {
            let problem = "has a meaning for a volume of the node (`host`) alone";
            Err(Error::invalid("propagation", problem))
        }
    }
}

pub(super) fn check_mounts(pod: &Draft, mounts: &[VolumeMount]) -> Result<()> {
    check_count("mounts", mounts.len(), MAX_LIST)?;
    let mut paths = BTreeSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let at = format!("mounts[{i}]");
        if !pod.volumes.iter().any(|volume| volume.name == mount.volume) {
            let problem = format!("is {:?}, which is no volume of the pod", mount.volume);
            return Err(Error::invalid(format!("{at}.volume"), problem));
        }
        check_target("path", &mount.path).within(&at)?;
        if !mount.sub_path.is_empty() {
            check_relative_path("sub_path", &mount.sub_path).within(&at)?;
        }
        sub_path::check(mount).within(&at)?;
        check_propagation(pod, mount).within(&at)?;
        if !paths.insert(&mount.path) {
            return Err(Error::invalid(format!("{at}.path"), "is given twice"));
        }
    }
    Ok(())
}
