// SPDX-License-Identifier: Apache-2.0
//! `/etc/resolv.conf`, from the name servers and domains of the configuration and the leases.
//! Written whole, and only when it changes.

use std::io;
use std::path::Path;

use super::lease::NameServer;

/// The most name servers that resolvers read (`MAXNS` of resolv.conf(5)).
const MAX_SERVERS: usize = 3;
/// The most search domains (`MAXDNSRCH`).
const MAX_DOMAINS: usize = 6;

/// The file's text; the first mention of a server or domain counts.
pub(super) fn render<'a>(
    servers: impl Iterator<Item = &'a NameServer>,
    domains: impl Iterator<Item = &'a String>,
) -> String {
    let mut text = String::from("# Written by auraed from its configuration and leases.\n");
    for server in unique(servers, MAX_SERVERS) {
        text.push_str(&format!("nameserver {server}\n"));
    }
    // A domain comes from the network: nothing that could start another line may pass.
    let sound = |domain: &&String| !domain.is_empty() && domain.bytes().all(is_domain_byte);
    let domains = unique(domains.filter(sound), MAX_DOMAINS);
    if !domains.is_empty() {
        let words: Vec<&str> = domains.into_iter().map(String::as_str).collect();
        text.push_str(&format!("search {}\n", words.join(" ")));
    }
    text
}

fn is_domain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

fn unique<'a, T: PartialEq>(items: impl Iterator<Item = &'a T>, most: usize) -> Vec<&'a T> {
    let mut kept: Vec<&T> = Vec::new();
    for item in items {
        if kept.len() < most && !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// Replaces the file in one step: a reader sees the old or the new one.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    let new = path.with_extension("conf.new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_domains_are_listed_once_in_order_up_to_what_resolvers_read() {
        let servers: Vec<NameServer> =
            ["192.0.2.1", "2001:db8::1", "192.0.2.1", "192.0.2.2", "::1"]
                .iter()
                .map(|s| s.parse::<std::net::IpAddr>().unwrap().into())
                .collect();
        let domains = [
            "a.example".to_owned(),
            "a.example".to_owned(),
            "b.example".to_owned(),
        ];
        let text = render(servers.iter(), domains.iter());
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "nameserver 192.0.2.1",
                "nameserver 2001:db8::1",
                "nameserver 192.0.2.2",
                "search a.example b.example"
            ]
        );
    }

    #[test]
    fn a_lease_cannot_smuggle_a_line_in() {
        let domains = [
            "x\nnameserver 6.6.6.6".to_owned(),
            "good.example".to_owned(),
        ];
        let text = render([].iter(), domains.iter());
        assert!(
            !text.contains("6.6.6.6") && text.contains("search good.example"),
            "{text}"
        );
    }

    #[test]
    fn the_file_is_replaced_in_one_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resolv.conf");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
