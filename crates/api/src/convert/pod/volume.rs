// SPDX-License-Identifier: Apache-2.0
//! The volumes of a pod, from the wire and back.

use model::error::{Error, Result, Within};
use model::pod::told::{AmountOf, FileFact, Said};
use model::pod::volume::{Empty, Files, Host, HostKind, Medium, Source, Volume};

use super::container::{fact, to_fact};
use crate::convert::HIDDEN;
use crate::convert::scalar::{enumeration, required};
use crate::pod::v0 as wire;

pub(super) fn volume(message: wire::Volume) -> Result<Volume> {
    let source = match required("source", message.source)? {
        wire::volume::Source::Empty(it) => Source::Empty(empty(it).within("empty")?),
        wire::volume::Source::Files(it) => Source::Files(files(it).within("files")?),
        wire::volume::Source::Host(it) => Source::Host(host(it).within("host")?),
    };
    Ok(Volume {
        name: message.name,
        source,
    })
}

fn files(message: wire::FilesVolume) -> Result<Files> {
    let facts = message.facts.into_iter().enumerate();
    let facts = facts.map(|(i, it)| file_fact(it).within(&format!("facts[{i}]")));
    Ok(Files {
        files: message.files,
        mode: message.mode,
        secret: message.secret,
        facts: facts.collect::<Result<_>>()?,
        modes: message.modes,
    })
}

fn file_fact(message: wire::FileFact) -> Result<FileFact> {
    use wire::file_fact::From as Wire;
    let from = match required("from", message.from)? {
        Wire::Fact(number) => Said::Fact(fact(number)?),
        Wire::Label(key) => Said::Label(key),
        Wire::Labels(true) => Said::Labels,
        Wire::Labels(false) => {
            let problem = "must be true: leave the file out that tells nothing";
            return Err(Error::invalid("labels", problem));
        }
        Wire::Amount(it) => Said::Amount(amount(it).within("amount")?),
    };
    let path = message.path;
    Ok(FileFact { path, from })
}

fn amount(message: wire::FileAmount) -> Result<AmountOf> {
    Ok(AmountOf {
        container: message.container,
        fact: fact(message.fact)?,
        divisor: message.divisor,
    })
}

fn empty(message: wire::EmptyVolume) -> Result<Empty> {
    use wire::empty_volume::Medium as Wire;
    Ok(Empty {
        medium: match enumeration("medium", message.medium)? {
            Wire::Unspecified | Wire::Memory => Medium::Memory,
            Wire::Disk => Medium::Disk,
        },
        size_bytes: message.size_bytes,
    })
}

fn host(message: wire::HostVolume) -> Result<Host> {
    use wire::host_volume::Type;
    if message.path.is_empty() {
        return Err(Error::invalid("path", "is required"));
    }
    Ok(Host {
        path: message.path,
        kind: match enumeration("type", message.r#type)? {
            Type::Unspecified => HostKind::Any,
            Type::Folder => HostKind::Folder,
            Type::File => HostKind::File,
            Type::Socket => HostKind::Socket,
            Type::FolderOrCreate => HostKind::FolderOrCreate,
            Type::FileOrCreate => HostKind::FileOrCreate,
        },
        owner_uid: message.owner_uid,
        owner_gid: message.owner_gid,
    })
}

/// The texts of a secret are never shown.
fn shown(files: &Files) -> std::collections::BTreeMap<String, String> {
    let mut all = files.files.clone();
    if files.secret {
        all.values_mut().for_each(|text| *text = HIDDEN.to_owned());
    }
    all
}

pub(super) fn to_volume(volume: &Volume) -> wire::Volume {
    use wire::volume::Source as Wire;
    let source = match &volume.source {
        Source::Empty(empty) => Wire::Empty(to_empty(empty)),
        Source::Files(files) => Wire::Files(to_files(files)),
        Source::Host(host) => Wire::Host(to_host(host)),
    };
    wire::Volume {
        name: volume.name.clone(),
        source: Some(source),
    }
}

fn to_files(files: &Files) -> wire::FilesVolume {
    wire::FilesVolume {
        files: shown(files),
        mode: files.mode,
        facts: files.facts.iter().map(to_file_fact).collect(),
        modes: files.modes.clone(),
        secret: files.secret,
    }
}

fn to_file_fact(fact: &FileFact) -> wire::FileFact {
    use wire::file_fact::From as Wire;
    let from = match &fact.from {
        Said::Fact(fact) => Wire::Fact(to_fact(*fact).into()),
        Said::Label(key) => Wire::Label(key.clone()),
        Said::Labels => Wire::Labels(true),
        Said::Amount(of) => Wire::Amount(wire::FileAmount {
            container: of.container.clone(),
            fact: to_fact(of.fact).into(),
            divisor: of.divisor,
        }),
    };
    wire::FileFact {
        path: fact.path.clone(),
        from: Some(from),
    }
}

fn to_empty(empty: &Empty) -> wire::EmptyVolume {
    use wire::empty_volume::Medium as Wire;
    let medium = match empty.medium {
        Medium::Memory => Wire::Unspecified,
        Medium::Disk => Wire::Disk,
    };
    wire::EmptyVolume {
        medium: medium.into(),
        size_bytes: empty.size_bytes,
    }
}

fn to_host(host: &Host) -> wire::HostVolume {
    use wire::host_volume::Type;
    let kind = match host.kind {
        HostKind::Any => Type::Unspecified,
        HostKind::Folder => Type::Folder,
        HostKind::File => Type::File,
        HostKind::Socket => Type::Socket,
        HostKind::FolderOrCreate => Type::FolderOrCreate,
        HostKind::FileOrCreate => Type::FileOrCreate,
    };
    wire::HostVolume {
        path: host.path.clone(),
        r#type: kind.into(),
        owner_uid: host.owner_uid,
        owner_gid: host.owner_gid,
    }
}
