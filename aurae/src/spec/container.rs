// SPDX-License-Identifier: Apache-2.0
//! Flags that describe the root of a container, for `run` and `cell run`.

use api::runtime::v0::{Container, Device, container};

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
    /// What may be written to the root (256M)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) root_size: Option<u64>,
    /// Keep what is written to the root on the node's disk, not in memory
    #[arg(long)]
    pub(crate) root_on_disk: bool,
    /// The size of /dev/shm (64M)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) shm_size: Option<u64>,
    /// Give it a device of the node (administrators): SRC[:DST][:rwm], or a name of CDI, as in
    /// vendor.com/class=name
    #[arg(long, value_name = "DEVICE", value_parser = parse_device)]
    pub(crate) device: Vec<Device>,
    /// Give it every device of the node (administrators)
    #[arg(long)]
    pub(crate) all_devices: bool,
    /// Show nothing at this path, beside the usual ones of /proc and /sys
    #[arg(long, value_name = "PATH")]
    pub(crate) mask: Vec<String>,
    /// Let nothing at this path be written, beside the usual ones of /proc
    #[arg(long, value_name = "PATH")]
    pub(crate) read_only_path: Vec<String>,
    /// Leave /proc and /sys as they are (administrators)
    #[arg(long)]
    pub(crate) unmasked: bool,
    /// Let its main process make cgroups, as systemd does
    #[arg(long)]
    pub(crate) delegate_cgroup: bool,
    /// The label of SELinux's that its files have (administrators), as in
    /// system_u:object_r:container_file_t:s0
    #[arg(long, value_name = "LABEL")]
    pub(crate) selinux_files: Option<String>,
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
            root_on_disk: self.root_on_disk,
            shared_memory_bytes: self.shm_size,
            devices: self.device.clone(),
            masked_paths: self.mask.clone(),
            read_only_paths: self.read_only_path.clone(),
            all_devices: self.all_devices,
            // A line of words is no place for them.
            hooks: Vec::new(),
            unmasked: self.unmasked,
            delegate_cgroup: self.delegate_cgroup,
            selinux_file_label: self.selinux_files.clone().unwrap_or_default(),
        }
    }

    /// The first flag that was given, to say that it doesn't fit.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.pull.is_some(), "--pull"),
            (self.read_only, "--read-only"),
            (self.root_size.is_some(), "--root-size"),
            (self.root_on_disk, "--root-on-disk"),
            (self.shm_size.is_some(), "--shm-size"),
            (!self.device.is_empty(), "--device"),
            (!self.mask.is_empty(), "--mask"),
            (!self.read_only_path.is_empty(), "--read-only-path"),
            (self.all_devices, "--all-devices"),
            (self.unmasked, "--unmasked"),
            (self.delegate_cgroup, "--delegate-cgroup"),
            (self.selinux_files.is_some(), "--selinux-files"),
        ];
        let mut given = given.iter().filter(|(is_given, _)| *is_given);
        given.next().map(|(_, flag)| *flag)
    }
}

/// Parses a device, as docker has it.
pub(crate) fn parse_device(text: &str) -> Result<Device, String> {
    const FORM: &str = "write SRC[:DST][:rwm], as in /dev/fuse or /dev/sdb:/dev/xvda:r";
    let mut device = Device::default();
    if !text.starts_with('/') && text.contains('=') {
        device.path = text.to_owned();
        return Ok(device);
    }
    for (at, part) in text.split(':').enumerate() {
        match (at, part.starts_with('/')) {
            (0, true) => device.path = part.to_owned(),
            (1, true) => device.target = part.to_owned(),
            (1 | 2, false) if !part.is_empty() && device.access.is_empty() => {
                device.access = part.to_owned();
            }
            _ => return Err(FORM.to_owned()),
        }
    }
    match device.access.chars().all(|letter| "rwm".contains(letter)) {
        true => Ok(device),
        false => Err(FORM.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_written_as_dockers() {
        let parts = |text| {
            let device = parse_device(text).unwrap();
            [device.path, device.target, device.access]
        };
        assert_eq!(parts("/dev/fuse"), ["/dev/fuse", "", ""]);
        assert_eq!(parts("/dev/fuse:rw"), ["/dev/fuse", "", "rw"]);
        assert_eq!(parts("/dev/a:/dev/b:r"), ["/dev/a", "/dev/b", "r"]);
        let named = "vendor.com/gpu=GPU-1:0";
        assert_eq!(parts(named), [named, "", ""]);
        for text in [
            "",
            "fuse",
            "/dev/a:",
            "/dev/a:rx",
            "/dev/a:r:w",
            "/a:/b:r:w",
        ] {
            assert!(parse_device(text).is_err(), "{text}");
        }
    }
}
