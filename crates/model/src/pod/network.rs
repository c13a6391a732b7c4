// SPDX-License-Identifier: Apache-2.0
//! The network of a pod: what may not be asked for, and what its cell asks for.

use super::{Draft, PodSpec};
use crate::error::{Error, Result, Within};
use crate::network::{HostAlias, MAX_NAMES, Network};
use crate::text::check_count;

impl PodSpec {
    /// The network of the pod's cell.
    pub fn cell_network(&self) -> Network {
        let aliases = self.host_aliases.iter();
        let aliases = aliases.map(|alias| HostAlias {
            address: alias.ip,
            names: alias.names.clone(),
        });
        let mut network = self.network.clone();
        network.hosts.extend(aliases);
        network
    }
}

/// The node's own network has its addresses, its ports and its routes; names are the pod's to say.
pub(super) fn check(draft: &Draft) -> Result<()> {
    let network = &draft.network;
    network.check().within("network")?;
    let hosts = network.hosts.len() + draft.host_aliases.len();
    check_count("host_aliases", hosts, MAX_NAMES)?;
    for (i, alias) in draft.host_aliases.iter().enumerate() {
        check_alias(alias).within(&format!("host_aliases[{i}]"))?;
    }
    if draft.host_network && network.attaches() {
        let problem = "with host_network only dns and hosts can be set";
        return Err(Error::invalid("network", problem));
    }
    for (i, port) in network.ports.iter().enumerate() {
        let before = network.ports.iter().take(i);
        if before.clone().any(|other| other.overlaps(port)) {
            let problem = format!(
                "uses the node port {}/{}, which another entry of this pod already publishes",
                port.host_port,
                port.protocol.as_str()
            );
            return Err(Error::invalid(format!("network.ports[{i}]"), problem));
        }
    }
    Ok(())
}

fn check_alias(alias: &super::spec::HostAlias) -> Result<()> {
    check_count("names", alias.names.len(), MAX_NAMES)?;
    if alias.names.is_empty() {
        return Err(Error::invalid("names", "must have at least one"));
    }
    for (i, name) in alias.names.iter().enumerate() {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        if name.is_empty() || name.len() > 253 || !name.bytes().all(good) {
            return Err(Error::invalid(
                format!("names[{i}]"),
                "is no name of a host",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Mode, Protocol, PublishedPort};
    use crate::pod::spec::Container;

    fn refused(change: fn(&mut Draft)) -> Option<String> {
        let mut draft = Draft {
            containers: vec![Container {
                name: "app".to_owned(),
                entrypoint: vec!["true".to_owned()],
                ..Container::default()
            }],
            ..Draft::default()
        };
        change(&mut draft);
        PodSpec::try_from(draft).err()?.field.clone()
    }

    fn port(address: Option<[u8; 4]>) -> PublishedPort {
        PublishedPort {
            protocol: Protocol::Tcp,
            address: address.map(Into::into),
            host_port: 8080,
            port: 80,
        }
    }

    #[test]
    fn a_pod_has_one_network_and_each_port_once() {
        let twice = |draft: &mut Draft| draft.network.ports = vec![port(None), port(Some([1; 4]))];
        assert_eq!(refused(twice).as_deref(), Some("network.ports[1]"));
        let others = |draft: &mut Draft| {
            draft.network.ports = vec![port(Some([2; 4])), port(Some([1; 4]))];
        };
        assert_eq!(refused(others), None);
        let none = |draft: &mut Draft| {
            draft.network.mode = Some(Mode::None);
            draft.network.ports = vec![port(None)];
        };
        assert_eq!(refused(none).as_deref(), Some("network.ports"));
        let both = |draft: &mut Draft| {
            draft.host_network = true;
            draft.network.mode = Some(Mode::Bridge);
        };
        assert_eq!(refused(both).as_deref(), Some("network"));
        let names = |draft: &mut Draft| {
            draft.host_network = true;
            draft.network.dns.searches = vec!["example.org".to_owned()];
        };
        assert_eq!(refused(names), None);
    }
}
