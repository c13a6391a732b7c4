// SPDX-License-Identifier: Apache-2.0
//! Which hosts stand for a registry, and how each of them is talked to: one TOML file with two
//! kinds of tables. `[registry."NAME"]` is about the name in references: its mirrors and its
//! server. `[host."HOST:PORT"]` is about a connection: CAs, client certificate, plain HTTP. Opens
//! no connection; `wire` does.
//!
//! ```toml
//! public_only = true                   # without a table of its own, a host must be a public one
//!
//! [[registry."docker.io".mirror]]
//! host = "mirror.lan:5000"
//! prefix = "hub"                       # asked for hub/library/nginx
//! tags = false                         # asked for digests alone; tags come from the server
//!
//! [registry."docker.io"]
//! mirrors_only = true                  # the server itself is never asked
//!
//! [host."mirror.lan:5000"]
//! ca = ["/etc/aurae/mirror-ca.pem"]
//! system_roots = false
//! client_certificate = "/etc/aurae/mirror.pem"
//! client_key = "/etc/aurae/mirror.key"
//!
//! [host."localhost:5000"]
//! plain_http = true
//! credentials_over_plain_http = true
//! redirects_to_private = true          # may point to any host of a private network
//! ```
//!
//! A mirror that can't be reached, has a wrong certificate, refuses, hasn't it, fails after its
//! retries, or lies about a digest is passed over for the next one; the registry's own server is
//! the last. What a mirror says of a tag is believed: that is what `tags = false` is for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::error::RegistryError;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// The most mirrors of one registry: each may take its whole time to fail.
const MOST_MIRRORS: usize = 8;
/// Docker Hub's API isn't served at its name.
const HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// The whole file, checked.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// Whether a host without a table is reached at public addresses alone, also when it is named
    /// by a reference and not by a redirect: a user that may pull could else probe the node's
    /// network.
    pub(crate) public_only: bool,
    registries: BTreeMap<String, Registry>,
    hosts: BTreeMap<String, Arc<Host>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    public_only: bool,
    #[serde(default)]
    registry: BTreeMap<String, Registry>,
    #[serde(default)]
    host: BTreeMap<String, Settings>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    server: Option<String>,
    #[serde(default)]
    mirrors_only: bool,
    #[serde(default)]
    mirror: Vec<Mirror>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mirror {
    host: String,
    #[serde(default)]
    prefix: String,
    #[serde(default = "yes")]
    tags: bool,
}

/// How one host is talked to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    #[serde(default)]
    pub(crate) plain_http: bool,
    #[serde(default)]
    pub(crate) credentials_over_plain_http: bool,
    #[serde(default)]
    pub(crate) redirects_to_private: bool,
    #[serde(default)]
    pub(crate) ca: Vec<PathBuf>,
    #[serde(default = "yes")]
    pub(crate) system_roots: bool,
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            plain_http: false,
            credentials_over_plain_http: false,
            redirects_to_private: false,
            ca: Vec::new(),
            system_roots: true,
            client_certificate: None,
            client_key: None,
        }
    }
}

fn yes() -> bool {
    true
}

/// A host with its settings.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// `host` or `host:port`, in lower case.
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Whether the file has a table for it: then its address may be a private one.
    pub(crate) configured: bool,
}

impl Host {
    /// `https`, or `http` where the file says so.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.settings.plain_http {
            "http"
        } else {
            "https"
        }
    }
}

/// One place where a registry's content is.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) host: Arc<Host>,
    /// What the repository is called there.
    pub(crate) repository: String,
    /// Whether it is asked for tags, too.
    pub(crate) tags: bool,
    /// Whether it is a mirror: not shown the credentials that a caller gave for the registry.
    pub(crate) mirror: bool,
}

impl Hosts {
    /// Reads the file; one that isn't there is empty.
    ///
    /// # Errors
    /// [`RegistryError::Config`] with the key, where it can't be read or isn't as described above.
    pub fn load(path: &Path) -> Result<Self, RegistryError> {
        use std::io::Read as _;
        let wrong = |problem: String| config(path, problem);
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(problem) if problem.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(problem) => return Err(wrong(problem.to_string())),
        };
        let mut text = String::new();
        let read = file.take(LONGEST + 1).read_to_string(&mut text);
        read.map_err(|problem| wrong(problem.to_string()))?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > LONGEST {
            return Err(wrong(format!("longer than {LONGEST} bytes")));
        }
        Self::parse(&text, path)
    }

    /// Reads a text; `path` is for errors.
    ///
    /// # Errors
    /// [`RegistryError::Config`] with the key.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RegistryError> {
        let file: File = toml::from_str(text)
            .map_err(|problem| config(path, problem.to_string().trim_end().to_owned()))?;
        let check = |problem: Result<(), String>| problem.map_err(|it| config(path, it));
        let mut hosts = BTreeMap::new();
        for (name, settings) in file.host {
            check(check_host(&name, &format!("host.{name:?}")))?;
            check(check_settings(&name, &settings))?;
            let name = name.to_ascii_lowercase();
            let host = Host {
                name: name.clone(),
                settings,
                configured: true,
            };
            hosts.insert(name, Arc::new(host));
        }
        for (name, registry) in &file.registry {
            check(check_registry(name, registry))?;
        }
        Ok(Self {
            public_only: file.public_only,
            registries: file.registry,
            hosts,
        })
    }

    /// The settings of a host; the default ones, without a table.
    pub(crate) fn host(&self, name: &str) -> Arc<Host> {
        let name = name.to_ascii_lowercase();
        self.hosts.get(&name).cloned().unwrap_or_else(|| {
            Arc::new(Host {
                name,
                settings: Settings::default(),
                configured: false,
            })
        })
    }

    /// All hosts with a table.
    pub(crate) fn configured(&self) -> impl Iterator<Item = &Arc<Host>> {
        self.hosts.values()
    }

    /// Where a repository is read, in the order in which the hosts are asked.
    pub(crate) fn to_pull(&self, registry: &str, repository: &str) -> Vec<Endpoint> {
        let entry = self.registries.get(registry);
        let mirrors = entry.map_or(&[][..], |it| &it.mirror);
        let mut all: Vec<Endpoint> = mirrors
            .iter()
            .map(|mirror| Endpoint {
                host: self.host(&mirror.host),
                repository: match mirror.prefix.trim_matches('/') {
                    "" => repository.to_owned(),
                    prefix => format!("{prefix}/{repository}"),
                },
                tags: mirror.tags,
                mirror: true,
            })
            .collect();
        if !entry.is_some_and(|it| it.mirrors_only) {
            all.push(self.to_push(registry, repository));
        }
        all
    }

    /// Where a repository is written: the registry's server, never a mirror.
    pub(crate) fn to_push(&self, registry: &str, repository: &str) -> Endpoint {
        let entry = self.registries.get(registry);
        let server = entry.and_then(|it| it.server.as_deref());
        let server = server.unwrap_or(if registry == HUB.0 { HUB.1 } else { registry });
        Endpoint {
            host: self.host(server),
            repository: repository.to_owned(),
            tags: true,
            mirror: false,
        }
    }
}

fn config(path: &Path, problem: String) -> RegistryError {
    RegistryError::Config {
        path: path.to_owned(),
        problem,
    }
}

fn check_registry(name: &str, registry: &Registry) -> Result<(), String> {
    let field = |rest: &str| format!("registry.{name:?}{rest}");
    check_host(name, &field(""))?;
    if let Some(server) = &registry.server {
        check_host(server, &field(".server"))?;
    }
    if registry.mirror.len() > MOST_MIRRORS {
        return Err(format!("{}: more than {MOST_MIRRORS}", field(".mirror")));
    }
    if registry.mirrors_only && registry.mirror.is_empty() {
        return Err(format!("{}: there is no mirror", field(".mirrors_only")));
    }
    if registry.mirrors_only && !registry.mirror.iter().any(|it| it.tags) {
        return Err(format!(
            "{}: no mirror is asked for tags",
            field(".mirrors_only")
        ));
    }
    for mirror in &registry.mirror {
        check_host(&mirror.host, &field(".mirror.host"))?;
        let plain =
            |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "/._-".contains(it);
        if !mirror.prefix.chars().all(plain) || mirror.prefix.contains("..") {
            let problem = "not a path of a repository (a-z 0-9 / . _ -)";
            return Err(format!(
                "{} {:?}: {problem}",
                field(".mirror.prefix"),
                mirror.prefix
            ));
        }
    }
    Ok(())
}

/// A host is what stands between `https://` and the path of a URL, and nothing else.
fn check_host(name: &str, field: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(&format!("https://{name}/")).ok();
    let same = url.is_some_and(|url| {
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        let found = format!("{}{port}", url.host_str().unwrap_or_default());
        found.eq_ignore_ascii_case(name.strip_suffix(":443").unwrap_or(name))
    });
    if same {
        Ok(())
    } else {
        Err(format!(
            "{field}: {name:?} is not HOST or HOST:PORT (without https:// or a path)"
        ))
    }
}

fn check_settings(name: &str, settings: &Settings) -> Result<(), String> {
    let field = |rest: &str| format!("host.{name:?}.{rest}");
    if settings.client_certificate.is_some() != settings.client_key.is_some() {
        let problem = "goes together with client_key";
        return Err(format!("{}: {problem}", field("client_certificate")));
    }
    if settings.credentials_over_plain_http && !settings.plain_http {
        let problem = "needs plain_http = true";
        return Err(format!(
            "{}: {problem}",
            field("credentials_over_plain_http")
        ));
    }
    if settings.plain_http && (!settings.ca.is_empty() || settings.client_key.is_some()) {
        return Err(format!(
            "{}: goes without ca and client_certificate",
            field("plain_http")
        ));
    }
    if !settings.system_roots && settings.ca.is_empty() && !settings.plain_http {
        return Err(format!("{}: false needs a ca", field("system_roots")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Result<Hosts, String> {
        Hosts::parse(text, Path::new("registries.toml")).map_err(|it| it.to_string())
    }

    fn shown(endpoints: &[Endpoint]) -> Vec<String> {
        let each = endpoints
            .iter()
            .map(|it| format!("{}://{}/{}", it.host.scheme(), it.host.name, it.repository));
        each.collect()
    }

    #[test]
    fn without_a_table_the_name_is_the_host_and_tls_is_spoken() {
        let hosts = Hosts::default();
        let found = shown(&hosts.to_pull("registry.example:5000", "a/b"));
        assert_eq!(found, ["https://registry.example:5000/a/b"]);
        let found = shown(&hosts.to_pull("docker.io", "library/nginx"));
        assert_eq!(found, ["https://registry-1.docker.io/library/nginx"]);
        assert_eq!(hosts.host("localhost:5000").scheme(), "https");
    }

    #[test]
    fn mirrors_are_asked_in_order_and_the_server_last() {
        let text = r#"
            [[registry."docker.io".mirror]]
            host = "one.lan:5000"
            prefix = "/hub/"
            tags = false
            [[registry."docker.io".mirror]]
            host = "two.lan"
            [host."one.lan:5000"]
            plain_http = true
        "#;
        let hosts = hosts(text).unwrap();
        let found = hosts.to_pull("docker.io", "library/nginx");
        let expected = [
            "http://one.lan:5000/hub/library/nginx",
            "https://two.lan/library/nginx",
            "https://registry-1.docker.io/library/nginx",
        ];
        assert_eq!(shown(&found), expected);
        let flags: Vec<_> = found.iter().map(|it| (it.tags, it.mirror)).collect();
        assert_eq!(flags, [(false, true), (true, true), (true, false)]);
        assert_eq!(
            shown(&[hosts.to_push("docker.io", "a/b")]),
            ["https://registry-1.docker.io/a/b"]
        );
    }

    #[test]
    fn a_registry_can_be_its_mirrors_alone_or_have_another_server() {
        let text = r#"
            [registry."a.example"]
            mirrors_only = true
            mirror = [{ host = "m.lan" }]
            [registry."b.example"]
            server = "b.lan:8443"
        "#;
        let hosts = hosts(text).unwrap();
        assert_eq!(shown(&hosts.to_pull("a.example", "r")), ["https://m.lan/r"]);
        assert_eq!(
            shown(&hosts.to_pull("b.example", "r")),
            ["https://b.lan:8443/r"]
        );
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_field() {
        for (text, problem) in [
            ("[host.\"https://a\"]", "host.\"https://a\""),
            ("[host.\"a/b\"]", "not HOST or HOST:PORT"),
            ("[host.\"u@a\"]", "not HOST or HOST:PORT"),
            ("[host.\"a:99999\"]", "not HOST or HOST:PORT"),
            ("[host.a]\nskip_verify = true", "skip_verify"),
            (
                "[host.a]\ncredentials_over_plain_http = true",
                "plain_http = true",
            ),
            ("[host.a]\nclient_key = \"/k\"", "client_certificate"),
            ("[host.a]\nsystem_roots = false", "needs a ca"),
            (
                "[host.a]\nplain_http = true\nca = [\"/x\"]",
                "goes without ca",
            ),
            ("[registry.a]\nmirrors_only = true", "there is no mirror"),
            (
                "[registry.a]\nmirror = [{host = \"m/x\"}]",
                "registry.\"a\".mirror.host",
            ),
            (
                "[registry.a]\nmirror = [{host = \"m\", prefix = \"../x\"}]",
                "mirror.prefix",
            ),
            (
                "[registry.a]\nmirrors_only = true\nmirror = [{host = \"m\", tags = false}]",
                "no mirror is asked for tags",
            ),
        ] {
            let found = hosts(text).unwrap_err();
            assert!(
                found.starts_with("registries.toml: ") && found.contains(problem),
                "{found}"
            );
        }
        let many = "{host = \"m\"},".repeat(MOST_MIRRORS + 1);
        assert!(hosts(&format!("[registry.a]\nmirror = [{many}]")).is_err());
    }

    #[test]
    fn addresses_are_hosts_too() {
        let text = "[host.\"[::1]:5000\"]\nplain_http = true\n[host.\"127.0.0.1:443\"]\n";
        let hosts = hosts(text).unwrap();
        assert_eq!(hosts.host("[::1]:5000").scheme(), "http");
        assert!(hosts.host("127.0.0.1:443").configured);
        assert!(!hosts.host("127.0.0.1").configured);
    }
}
