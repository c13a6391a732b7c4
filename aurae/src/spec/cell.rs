// SPDX-License-Identifier: Apache-2.0
//! Flags that describe a cell, for `cell run`, `cell update` and `run`.

use api::runtime::v0::{CellSpec, Join, Mount, Namespace, Volume};

use super::mount::{parse_read, parse_tmpfs, parse_write};
use super::{NetworkFlags, ResourceFlags, parse_pair};

/// What a cell shares and sees.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The cell")]
pub(crate) struct CellFlags {
    /// Share namespaces with the parent: user,mount,pid,net,ipc,uts,cgroup or all
    #[arg(long, value_enum, value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) share: Vec<Share>,
    /// Use a namespace of another cell: net, ipc or uts, as in net=web
    #[arg(long, value_name = "NAMESPACE=CELL", value_parser = parse_join)]
    pub(crate) join: Vec<Join>,
    /// Let a part of the node's file system in, read-only: SRC[:DST][,rprivate|rslave]
    #[arg(long, value_name = "MOUNT", value_parser = parse_read)]
    pub(crate) read: Vec<Mount>,
    /// The same, writable: SRC[:DST],owner=UID[,group=GID][,allow-root][,rprivate|rslave]
    #[arg(long, value_name = "MOUNT", value_parser = parse_write)]
    pub(crate) write: Vec<Mount>,
    /// A private folder in memory: PATH[,size=BYTES][,mode=OCTAL][,uid=N][,gid=N][,noexec]
    #[arg(long, value_name = "VOLUME", value_parser = parse_tmpfs)]
    pub(crate) tmpfs: Vec<Volume>,
    /// The cell's host name, instead of its own
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname: Option<String>,
    /// How many user and group ids the cell has (65536)
    #[arg(long, value_name = "NUMBER")]
    pub(crate) id_range: Option<u32>,
    /// A kernel parameter of its own namespaces, as in net.core.somaxconn=1024
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) sysctl: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) network: NetworkFlags,
}

/// A namespace to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Share {
    User,
    Mount,
    Pid,
    Net,
    Ipc,
    Uts,
    Cgroup,
    /// Every one of them: no isolation but the cgroup's
    All,
}

const ALL: [Namespace; 7] = [
    Namespace::User,
    Namespace::Mount,
    Namespace::Pid,
    Namespace::Net,
    Namespace::Ipc,
    Namespace::Uts,
    Namespace::Cgroup,
];

fn parse_join(text: &str) -> Result<Join, String> {
    let (kind, cell) = text.split_once('=').ok_or("must be NAMESPACE=CELL")?;
    let namespace = match kind {
        "net" => Namespace::Net,
        "ipc" => Namespace::Ipc,
        "uts" => Namespace::Uts,
        other => {
            return Err(format!(
                "{other} can't be another cell's: net, ipc and uts can"
            ));
        }
    };
    Ok(Join {
        namespace: namespace.into(),
        cell: cell.to_owned(),
    })
}

impl Share {
    fn namespaces(self) -> Vec<Namespace> {
        match self {
            Self::User => vec![Namespace::User],
            Self::Mount => vec![Namespace::Mount],
            Self::Pid => vec![Namespace::Pid],
            Self::Net => vec![Namespace::Net],
            Self::Ipc => vec![Namespace::Ipc],
            Self::Uts => vec![Namespace::Uts],
            Self::Cgroup => vec![Namespace::Cgroup],
            Self::All => ALL.to_vec(),
        }
    }
}

impl CellFlags {
    /// The cell with those limits.
    pub(crate) fn build(&self, resources: &ResourceFlags) -> CellSpec {
        let mut share: Vec<i32> = self
            .share
            .iter()
            .flat_map(|share| share.namespaces())
            .chain(self.network.is_host().then_some(Namespace::Net))
            .map(i32::from)
            .collect();
        share.sort_unstable();
        share.dedup();
        CellSpec {
            share,
            resources: resources.build(),
            mounts: self.read.iter().chain(&self.write).cloned().collect(),
            volumes: self.tmpfs.clone(),
            hostname: self.hostname.clone().unwrap_or_default(),
            id_range: self.id_range,
            container: None,
            sysctls: self.sysctl.iter().cloned().collect(),
            network: self.network.build(),
            light: false,
            join: self.join.clone(),
        }
    }

    /// The first flag that was given, to say that it doesn't fit.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (!self.share.is_empty(), "--share"),
            (!self.join.is_empty(), "--join"),
            (!self.read.is_empty(), "--read"),
            (!self.write.is_empty(), "--write"),
            (!self.tmpfs.is_empty(), "--tmpfs"),
            (self.hostname.is_some(), "--hostname"),
            (self.id_range.is_some(), "--id-range"),
            (!self.sysctl.is_empty(), "--sysctl"),
        ];
        given
            .iter()
            .find(|(is_given, _)| *is_given)
            .map(|(_, flag)| *flag)
            .or_else(|| self.network.first_given())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_all_is_sharing_each_once() {
        let flags = CellFlags {
            share: vec![Share::Net, Share::All],
            ..Default::default()
        };
        assert_eq!(
            flags.build(&ResourceFlags::default()).share,
            [1, 2, 3, 4, 5, 6, 7]
        );
    }
}
