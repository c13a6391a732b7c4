// SPDX-License-Identifier: Apache-2.0
//! Devices of the node that a container may use: their form. Who may ask for them is the runtime's
//! to decide, and what they are is for the node to see.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text::{check_absolute_path, check_length, is_path_within};

/// The most devices of one container.
pub const MAX_DEVICES: usize = 64;

/// The longest name of a device, in bytes.
const MAX_NAME: usize = 256;

/// What of `/dev` is the container's own, and no device's place.
const OWN: [&str; 14] = [
    "/dev/fd",
    "/dev/full",
    "/dev/mqueue",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/shm",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];

/// A device of the node in a container.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// On the node, as in `/dev/fuse`; or a name of the Container Device Interface, as in
    /// `vendor.com/class=name`: then it is what the node's files say of that.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub path: String,
    /// In the container. Empty: the same.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub target: String,
    /// Letters of `rwm`: reading, writing, making a node of it. Empty: all three.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub access: String,
}

impl Device {
    /// Where it appears in the container.
    pub fn effective_target(&self) -> &str {
        match self.target.is_empty() {
            true => &self.path,
            false => &self.target,
        }
    }

    /// What may be done with it, in letters.
    pub fn effective_access(&self) -> &str {
        match self.access.is_empty() {
            true => "rwm",
            false => &self.access,
        }
    }

    /// Whether it is a name of the Container Device Interface, and no path.
    pub fn is_named(&self) -> bool {
        !self.path.starts_with('/') && self.path.contains('=')
    }

    /// Checks its form.
    ///
    /// # Errors
    /// `INVALID_FIELD`, by the field.
    pub fn check(&self) -> Result<()> {
        if self.is_named() {
            return self.check_name();
        }
        check_absolute_path("path", &self.path)?;
        let target = self.effective_target();
        check_absolute_path("target", target)?;
        if !target.starts_with("/dev/") || target.starts_with("/dev/.") {
            let problem = format!("{target:?} is not below /dev, where a container has devices");
            return Err(Error::invalid("target", problem).hint("name a place such as /dev/fuse"));
        }
        if let Some(own) = OWN.iter().find(|own| is_path_within(target, own)) {
            let problem = format!("{own} is the container's own");
            return Err(Error::invalid("target", problem).hint("name another place below /dev"));
        }
        match self.access.chars().find(|letter| !"rwm".contains(*letter)) {
            None => Ok(()),
            Some(letter) => {
                let problem = format!("{letter:?} is none of the letters r, w, m");
                Err(Error::invalid("access", problem).hint("give rwm, rw or r"))
            }
        }
    }
}

impl Device {
    /// A name has its places and what may be done from its file alone.
    fn check_name(&self) -> Result<()> {
        check_length("path", &self.path, MAX_NAME)?;
        let bad = || {
            let problem = format!("{:?} is no name such as vendor.com/class=name", self.path);
            Err(Error::invalid("path", problem))
        };
        let parts = self.path.split_once('=');
        let parts = parts.and_then(|(kind, name)| Some((kind.split_once('/')?, name)));
        let Some(((vendor, class), name)) = parts else {
            return bad();
        };
        let is_letter = |c: char| c.is_ascii_alphabetic();
        let is_kind = |text: &str, more: &str| text.starts_with(is_letter) && has_form(text, more);
        if !is_kind(vendor, "_-.") || !is_kind(class, "_-") || !has_form(name, "_-.:") {
            return bad();
        }
        for (field, text) in [("target", &self.target), ("access", &self.access)] {
            if !text.is_empty() {
                let problem = "is what the device's file says, where it has a name";
                return Err(Error::invalid(field, problem).hint("leave it out"));
            }
        }
        Ok(())
    }
}

/// Letters and digits at both ends, and between them these, too.
fn has_form(text: &str, more: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|c| plain(c) || more.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_a_place_of_its_own_below_dev() {
        let device = |path: &str, target: &str, access: &str| Device {
            path: path.to_owned(),
            target: target.to_owned(),
            access: access.to_owned(),
        };
        for good in [
            device("/dev/fuse", "", ""),
            device("/run/disk", "/dev/xvda", "rw"),
            device("/dev/nullb0", "", "r"),
            device("vendor.com/gpu=0", "", ""),
            device("a-b.example/class_1=GPU-1:2.x", "", ""),
        ] {
            good.check().unwrap();
        }
        for (bad, field) in [
            (device("dev/fuse", "", ""), "path"),
            (device("/run/disk", "", ""), "target"),
            (device("/dev/fuse", "/dev/pts/3", ""), "target"),
            (device("/dev/null", "", ""), "target"),
            (device("/dev/fuse", "/dev/.mounts", ""), "target"),
            (device("/dev/fuse", "", "rx"), "access"),
            (device("vendor.com/gpu=0", "/dev/x", ""), "target"),
            (device("vendor.com/gpu=0", "", "r"), "access"),
            (device("vendor.com/gpu=", "", ""), "path"),
            (device("vendor.com=0", "", ""), "path"),
            (device("9.com/gpu=0", "", ""), "path"),
            (device("v/c/d=0", "", ""), "path"),
            (device("../x/gpu=0", "", ""), "path"),
        ] {
            let error = bad.check().unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }
}
