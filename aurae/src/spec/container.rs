// SPDX-License-Identifier: Apache-2.0
//! Flags that describe the root of a container, for `run` and `cell run`.

use api::runtime::v0::{Container, container};

use crate::quantity::parse_bytes;

/// The root of a container.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The container")]
pub(crate) struct ContainerFlags {
    /// When the image is asked for at its registry (if-not-present)
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) pull: Option<Pull>,
    /// Nothing of the image's root can be written
    #[arg(long)]
    pub(crate) read_only: bool,
    /// What may be written to the root, in memory (256M)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) root_size: Option<u64>,
    /// The size of /dev/shm (64M)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) shm_size: Option<u64>,
}

/// What runs first in a container.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The container")]
pub(crate) struct EntrypointFlag {
    /// In place of the image's entrypoint and arguments
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) entrypoint: Option<String>,
}

/// When an image is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pull {
    /// Where the node hasn't got it
    #[value(alias = "missing")]
    IfNotPresent,
    /// Each time; bytes that are there are not sent again
    Always,
    /// Never
    Never,
}

impl ContainerFlags {
    /// The container of that image.
    pub(crate) fn build(&self, image: &str) -> Container {
        let pull = self.pull.map(|pull| match pull {
            Pull::IfNotPresent => container::Pull::IfNotPresent,
            Pull::Always => container::Pull::Always,
            Pull::Never => container::Pull::Never,
        });
        Container {
            image: image.to_owned(),
            pull: pull.map_or(0, i32::from),
            read_only: self.read_only,
            root_bytes: self.root_size,
            shared_memory_bytes: self.shm_size,
        }
    }

    /// The first flag that was given, to say that it doesn't fit.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.pull.is_some(), "--pull"),
            (self.read_only, "--read-only"),
            (self.root_size.is_some(), "--root-size"),
            (self.shm_size.is_some(), "--shm-size"),
        ];
        let mut given = given.iter().filter(|(is_given, _)| *is_given);
        given.next().map(|(_, flag)| *flag)
    }
}
