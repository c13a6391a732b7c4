// SPDX-License-Identifier: Apache-2.0
//! What may not be asked for of a network, and what it takes in the record.

use std::collections::BTreeSet;

use super::{FIRST_INTERFACE, MAX_CNI, MAX_DNS_SERVERS, MAX_NAMES, MAX_PORTS, Mode, Network};
use crate::error::{Error, Result, Within};
use crate::text::{check_count, weight};

impl Network {
    pub(crate) fn check(&self) -> Result<()> {
        check_count("ports", self.ports.len(), MAX_PORTS)?;
        check_count("dns.servers", self.dns.servers.len(), MAX_DNS_SERVERS)?;
        check_count("dns.searches", self.dns.searches.len(), MAX_NAMES)?;
        check_count("dns.options", self.dns.options.len(), MAX_NAMES)?;
        check_count("hosts", self.hosts.len(), MAX_NAMES)?;
        let needs = [
            ("ports", self.ports.is_empty()),
            ("addresses", self.addresses.is_empty()),
            ("cni", self.cni.is_empty()),
        ];
        if let (Some(Mode::None), Some((field, _))) =
            (self.mode, needs.iter().find(|(_, none)| !*none))
        {
            return Err(Error::invalid(*field, "need a network; the mode is NONE"));
        }
        self.check_addresses()?;
        self.check_cni()?;
        if !self.domain.is_empty() {
            check_word("domain", &self.domain)?;
        }
        for (i, port) in self.ports.iter().enumerate() {
            if port.host_port == 0 || port.port == 0 {
                let problem = "needs a port of the node and one of the cell, 1 to 65535";
                return Err(Error::invalid(format!("ports[{i}]"), problem));
            }
        }
        let words = [
            ("dns.searches", &self.dns.searches),
            ("dns.options", &self.dns.options),
        ];
        for (field, words) in words {
            for (i, word) in words.iter().enumerate() {
                check_word(&format!("{field}[{i}]"), word)?;
            }
        }
        for (i, host) in self.hosts.iter().enumerate() {
            let at = format!("hosts[{i}]");
            check_count("names", host.names.len(), MAX_NAMES).within(&at)?;
            for (n, name) in host.names.iter().enumerate() {
                check_word(&format!("names[{n}]"), name).within(&at)?;
            }
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<()> {
        let fours = self.addresses.iter().filter(|it| it.is_ipv4()).count();
        if fours > 1 || self.addresses.len() - fours > 1 {
            let problem = "may be one of IPv4 and one of IPv6";
            return Err(Error::invalid("addresses", problem));
        }
        if self.mode == Some(Mode::Cni) && !self.addresses.is_empty() {
            let problem = "are the bridge's; the mode is CNI, whose plugins choose addresses";
            return Err(Error::invalid("addresses", problem));
        }
        Ok(())
    }

    fn check_cni(&self) -> Result<()> {
        check_count("cni", self.cni.len(), MAX_CNI)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let is_name = |text: &str, most: usize| {
            let begins = text
                .bytes()
                .next()
                .is_some_and(|b| b.is_ascii_alphanumeric());
            begins && text.len() <= most && text.bytes().all(plain)
        };
        // Beside the bridge its interface is there, too.
        let is_alone = self.mode == Some(Mode::Cni);
        let mut names = BTreeSet::new();
        if !is_alone {
            names.insert(FIRST_INTERFACE.to_owned());
        }
        for (i, network) in self.cni_interfaces(is_alone).into_iter().enumerate() {
            let at = format!("cni[{i}]");
            if !is_name(&network.name, 64) {
                let problem = "must be 1 to 64 letters, digits, '_', '.' and '-'";
                return Err(Error::invalid(format!("{at}.name"), problem));
            }
            let interface = &network.interface;
            if !is_name(interface, 15) || ["lo", "all", "default"].contains(&interface.as_str()) {
                let problem = "must be 1 to 15 letters, digits, '_', '.' and '-', and not lo";
                return Err(Error::invalid(format!("{at}.interface"), problem));
            }
            if !names.insert(interface.clone()) {
                let problem = format!("is {interface}, as another interface of the cell");
                return Err(Error::invalid(format!("{at}.interface"), problem));
            }
        }
        Ok(())
    }

    /// What it takes in the record, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let words = self.dns.searches.iter().chain(&self.dns.options);
        let hosts = self.hosts.iter().flat_map(|host| &host.names);
        let texts: usize = words.chain(hosts).map(|word| weight(word) + 4).sum();
        let cni = self.cni.iter().map(|it| it.name.len() + it.interface.len());
        let texts = texts + weight(&self.domain) + cni.sum::<usize>();
        let others = self.dns.servers.len() + self.hosts.len() + self.addresses.len();
        texts + (self.ports.len() + others + self.cni.len()) * 120
    }
}

/// A word of a file of lines and words: visible ASCII, so that none becomes a line of its own.
fn check_word(field: &str, word: &str) -> Result<()> {
    if (1..=255).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return Ok(());
    }
    let problem = "must be 1 to 255 visible characters without spaces and #";
    Err(Error::invalid(field, problem))
}
