// SPDX-License-Identifier: Apache-2.0
//! `--cap-add`, `--cap-drop`, `--cap-ambient`: changes to the default set of container runtimes.

use std::collections::BTreeSet;

use api::capability::{DEFAULT, NAMES};
use api::runtime::v0::Capabilities;

/// Capabilities of an executable.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct CapabilityFlags {
    /// Add capabilities to the default set of container runtimes, or ALL
    #[arg(long, value_name = "CAP", value_delimiter = ',')]
    cap_add: Vec<String>,
    /// Drop capabilities from it, or ALL
    #[arg(long, value_name = "CAP", value_delimiter = ',')]
    cap_drop: Vec<String>,
    /// Keep these across exec for a user that isn't root
    #[arg(long, value_name = "CAP", value_delimiter = ',')]
    cap_ambient: Vec<String>,
}

impl CapabilityFlags {
    /// `None`: the node's default.
    pub(crate) fn build(&self) -> Option<Capabilities> {
        if self.cap_add.is_empty() && self.cap_drop.is_empty() && self.cap_ambient.is_empty() {
            return None;
        }
        let mut set: BTreeSet<String> = DEFAULT.map(str::to_owned).into();
        for name in &self.cap_drop {
            match plain(name).as_str() {
                "ALL" => set.clear(),
                name => _ = set.remove(name),
            }
        }
        for name in &self.cap_add {
            match plain(name).as_str() {
                "ALL" => set.extend(NAMES.map(str::to_owned)),
                name => _ = set.insert(name.to_owned()),
            }
        }
        // As docker's: what is dropped by name stays dropped beside `--cap-add ALL`.
        for name in self.cap_drop.iter().map(|name| plain(name)) {
            if self.cap_add.iter().any(|added| plain(added) == "ALL") {
                set.remove(&name);
            }
        }
        let ambient: Vec<String> = self.cap_ambient.iter().map(|name| plain(name)).collect();
        Some(Capabilities {
            bounding: set.into_iter().collect(),
            ambient,
        })
    }
}

/// `cap_net_raw`, `NET_RAW` and `net-raw` are the same name. The node refuses unknown names.
fn plain(name: &str) -> String {
    let name = name.to_ascii_uppercase().replace('-', "_");
    name.strip_prefix("CAP_").unwrap_or(&name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounding(add: &[&str], drop: &[&str]) -> Vec<String> {
        let flags = CapabilityFlags {
            cap_add: add.iter().map(ToString::to_string).collect(),
            cap_drop: drop.iter().map(ToString::to_string).collect(),
            cap_ambient: Vec::new(),
        };
        flags.build().unwrap().bounding
    }

    #[test]
    fn nothing_said_is_nothing_sent() {
        assert!(CapabilityFlags::default().build().is_none());
    }

    #[test]
    fn names_are_added_to_and_dropped_from_the_default_set() {
        assert_eq!(bounding(&["net_raw"], &["ALL"]), ["NET_RAW"]);
        assert_eq!(bounding(&[], &["all"]).len(), 0);
        assert_eq!(bounding(&["CAP_SYS_TIME"], &["cap-kill"]).len(), 14);
        let most = bounding(&["ALL"], &["SYS_ADMIN"]);
        assert!(most.len() == 40 && !most.contains(&"SYS_ADMIN".to_owned()));
    }
}
