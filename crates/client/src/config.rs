// SPDX-License-Identifier: Apache-2.0
//! The client's configuration: nodes, users and the contexts that join them, as kubectl has them.
//!
//! ```toml
//! current-context = "home"
//!
//! [nodes.home]
//! address = "https://[2001:db8::1]:9401"
//! ca = "home-ca.pem"                      # relative to this file's folder
//! id = "spiffe://home.example/node/home"  # or trust-domain = "home.example"
//!
//! [users.me]
//! certificate = "me.pem"
//! key = "me.key"
//!
//! [contexts.home]
//! node = "home"
//! user = "me"
//! tenant = "blue"                         # instead of the user's own
//! labels = { role = "web" }               # what a program's `nodes("role=web")` selects by
//! ```
//!
//! Without a file: the local node with its administrator's credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use api::label::Labels;
use api::selector::Selector;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::error::Error;
use crate::files;
use crate::tls::NodeIdentity;

/// Where a local node listens.
const LOCAL_SOCKET: &str = "/run/aurae/aurae.sock";
/// Where a local node keeps its administrator's credentials.
const LOCAL_PKI: &str = "/var/lib/aurae/pki";

/// A node of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeEntry {
    /// The address where it listens.
    pub address: Address,
    /// The CA (PEM) that its certificate comes from.
    pub ca: PathBuf,
    /// The SPIFFE ID that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The trust domain that it must belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_domain: Option<String>,
}

/// The files of a user's credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UserEntry {
    /// The certificate and its chain (PEM).
    pub certificate: PathBuf,
    /// The private key (PEM).
    pub key: PathBuf,
}

/// A node, and the user whose credentials are used for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ContextEntry {
    /// A key of `nodes`.
    pub node: String,
    /// A key of `users`.
    pub user: String,
    /// The tenant whose objects are meant; the user's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What selectors find it by. They are the client's own: the node knows nothing of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The contents of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// A key of `contexts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_context: Option<String>,
    /// The nodes, each under a name of the user's choice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeEntry>,
    /// The users, each under a name of the user's choice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<String, UserEntry>,
    /// The contexts, each under a name of the user's choice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub contexts: BTreeMap<String, ContextEntry>,
    #[serde(skip)]
    file: PathBuf,
}

/// One node to connect to: its address, and the client's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The context's name; `None`: the local node, without configuration.
    pub context: Option<String>,
    /// The address where it listens.
    pub address: Address,
    /// The file of the CA that its certificate must come from.
    pub ca: PathBuf,
    /// The file of the client's certificate.
    pub certificate: PathBuf,
    /// The file of the client's key.
    pub key: PathBuf,
    /// The SPIFFE ID or trust domain that the node must have.
    pub expected: NodeIdentity,
    /// The tenant whose objects are meant; empty: the user's own.
    pub tenant: String,
}

impl Target {
    /// The node of this machine, as its administrator.
    pub fn local() -> Self {
        let pki = Path::new(LOCAL_PKI);
        Self {
            context: None,
            address: Address::Unix(PathBuf::from(LOCAL_SOCKET)),
            ca: pki.join("ca.pem"),
            certificate: pki.join("admin.pem"),
            key: pki.join("admin.key"),
            expected: NodeIdentity::default(),
            tenant: String::new(),
        }
    }
}

impl Config {
    /// `$AURAE_CONFIG`, else `aurae/config.toml` in `$XDG_CONFIG_HOME`, `~/.config` or, without a
    /// home (a service, an init), `/root/.config`.
    pub fn default_path() -> PathBuf {
        if let Some(path) = files::variable("AURAE_CONFIG") {
            return path.into();
        }
        files::user_folder("XDG_CONFIG_HOME", ".config")
            .unwrap_or_else(|| PathBuf::from("/root/.config"))
            .join("aurae/config.toml")
    }

    /// Reads the file; an absent one is an empty configuration.
    ///
    /// # Errors
    /// [`Error::File`], or [`Error::Config`] with line and key.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let mut config = match files::read_text(path) {
            Ok(text) => Self::parse(path, &text)?,
            Err(Error::File { problem, .. }) if problem.kind() == std::io::ErrorKind::NotFound => {
                Self::default()
            }
            Err(problem) => return Err(problem),
        };
        config.file = path.to_owned();
        config.check()?;
        Ok(config)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|problem: toml::de::Error| Error::Config {
            path: path.to_owned(),
            problem: at_line(text, &problem),
        })
    }

    /// Every name that a context uses must be there, and labels are as on a node's objects.
    fn check(&self) -> Result<(), Error> {
        for (name, context) in &self.contexts {
            if !self.nodes.contains_key(&context.node) {
                let problem = format!("contexts.{name}.node: there is no node {:?}", context.node);
                return Err(self.wrong(problem));
            }
            if !self.users.contains_key(&context.user) {
                let problem = format!("contexts.{name}.user: there is no user {:?}", context.user);
                return Err(self.wrong(problem));
            }
            if let Err(problem) = Labels::new(context.labels.clone()) {
                let field = problem.field.as_deref().unwrap_or_default();
                let problem = format!("contexts.{name}.labels{field}: {}", problem.message);
                return Err(self.wrong(problem));
            }
        }
        match &self.current_context {
            Some(name) if !self.contexts.contains_key(name) => {
                Err(self.wrong(format!("current-context: there is no context {name:?}")))
            }
            _ => Ok(()),
        }
    }

    /// The names of the contexts whose labels match, in alphabetical order.
    pub fn select(&self, selector: &Selector) -> Vec<String> {
        let matching = self.contexts.iter().filter(|(_, context)| {
            // They were checked when the file was read.
            Labels::new(context.labels.clone()).is_ok_and(|labels| selector.matches(&labels))
        });
        matching.map(|(name, _)| name.clone()).collect()
    }

    /// The labels of all contexts, each once: `role=web`.
    pub fn labels(&self) -> BTreeSet<String> {
        let all = self.contexts.values().flat_map(|context| &context.labels);
        all.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// The file that it is from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Writes it back, at once and checked. Comments in the file are not kept.
    ///
    /// # Errors
    /// [`Error::Config`] when names don't match, [`Error::File`].
    pub fn save(&self) -> Result<(), Error> {
        self.check()?;
        files::write_private(&self.file, self.to_toml()?.as_bytes())
    }

    /// The text of the file.
    ///
    /// # Errors
    /// [`Error::Config`] when a path isn't UTF-8.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string_pretty(self).map_err(|problem| self.wrong(problem.to_string()))
    }

    /// The node to connect to. `choice`: a context's name, or an address that is used with the
    /// current context's credentials; `None`: the current context.
    ///
    /// # Errors
    /// [`Error::Config`] for a context that isn't there.
    pub fn target(&self, choice: Option<&str>) -> Result<Target, Error> {
        match choice {
            Some(text) if Address::is_meant_by(text) => {
                let address = text
                    .parse()
                    .map_err(|problem: crate::address::InvalidAddress| {
                        self.wrong(problem.to_string())
                    })?;
                let current = self.current()?;
                // Another address may be another node: only the CA decides then.
                let expected = if current.address == address {
                    current.expected.clone()
                } else {
                    NodeIdentity::default()
                };
                Ok(Target {
                    address,
                    expected,
                    ..current
                })
            }
            Some(name) => self.context(name),
            None => self.current(),
        }
    }

    /// The context that leads to the node of that name: one of that name, or else the first in
    /// alphabetical order whose node is called so, here or by its SPIFFE ID.
    pub fn context_of_node(&self, name: &str) -> Option<&str> {
        if let Some((own, _)) = self.contexts.get_key_value(name) {
            return Some(own);
        }
        let is_called = |key: &str| {
            let id = self.nodes.get(key).and_then(|node| node.id.as_deref());
            let id = id.and_then(|id| id.rsplit_once("/node/"));
            key == name || id.is_some_and(|(_, own)| own == name)
        };
        let mut contexts = self.contexts.iter();
        let found = contexts.find(|(_, context)| is_called(&context.node));
        found.map(|(context, _)| context.as_str())
    }

    fn current(&self) -> Result<Target, Error> {
        match &self.current_context {
            Some(name) => self.context(name),
            None => Ok(Target::local()),
        }
    }

    fn context(&self, name: &str) -> Result<Target, Error> {
        let missing = || {
            let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let known = match known.as_slice() {
                [] => "none is configured".to_owned(),
                names => format!("there are: {}", names.join(", ")),
            };
            self.wrong(format!("there is no context {name:?}; {known}"))
        };
        let context = self.contexts.get(name).ok_or_else(missing)?;
        let node = self.nodes.get(&context.node).ok_or_else(missing)?;
        let user = self.users.get(&context.user).ok_or_else(missing)?;
        let folder = self.file.parent().unwrap_or(Path::new("."));
        Ok(Target {
            context: Some(name.to_owned()),
            address: node.address.clone(),
            ca: folder.join(&node.ca),
            certificate: folder.join(&user.certificate),
            key: folder.join(&user.key),
            expected: NodeIdentity {
                id: node.id.clone(),
                trust_domain: node.trust_domain.clone(),
            },
            tenant: context.tenant.clone().unwrap_or_default(),
        })
    }

    fn wrong(&self, problem: String) -> Error {
        Error::Config {
            path: self.file.clone(),
            problem,
        }
    }
}

fn at_line(text: &str, problem: &toml::de::Error) -> String {
    let message = problem.message().trim_end();
    match problem.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {message}")
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
current-context = "home"

[nodes.home]
address = "https://node.example:9401"
ca = "home-ca.pem"
trust-domain = "home.example"

[nodes.lab]
address = "unix:///run/lab/aurae.sock"
ca = "/etc/lab/ca.pem"

[users.me]
certificate = "me.pem"
key = "/secret/me.key"

[contexts.home]
node = "home"
user = "me"

[contexts.lab]
node = "lab"
user = "me"
tenant = "blue"
labels = { role = "web", zone = "b" }

[contexts.bench]
node = "lab"
user = "me"
labels = { role = "web" }
"#;

    fn load(text: &str) -> Result<Config, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let mut config = Config::load(&path)?;
        config.file = PathBuf::from("/conf/config.toml");
        Ok(config)
    }

    #[test]
    fn without_a_file_it_is_the_local_node_as_administrator() {
        let config = Config::load(Path::new("/nonexistent/config.toml")).unwrap();
        let target = config.target(None).unwrap();
        assert_eq!(target.address.to_string(), "unix:///run/aurae/aurae.sock");
        assert_eq!(
            target.certificate,
            Path::new("/var/lib/aurae/pki/admin.pem")
        );
    }

    #[test]
    fn a_context_joins_node_and_user_with_paths_beside_the_file() {
        let config = load(TWO).unwrap();
        let home = config.target(None).unwrap();
        assert_eq!(home.ca, Path::new("/conf/home-ca.pem"));
        assert_eq!(home.key, Path::new("/secret/me.key"));
        assert_eq!(home.expected.trust_domain.as_deref(), Some("home.example"));
        let lab = config.target(Some("lab")).unwrap();
        assert_eq!(
            (lab.tenant.as_str(), lab.ca.to_str()),
            ("blue", Some("/etc/lab/ca.pem"))
        );
    }

    #[test]
    fn an_address_uses_the_current_credentials_and_expects_no_certain_node() {
        let target = load(TWO)
            .unwrap()
            .target(Some("unix:///tmp/a.sock"))
            .unwrap();
        assert_eq!(target.address.to_string(), "unix:///tmp/a.sock");
        assert_eq!(target.certificate, Path::new("/conf/me.pem"));
        assert_eq!(target.expected, NodeIdentity::default());
    }

    #[test]
    fn mistakes_are_named_with_file_line_and_key() {
        let problem = |text: &str| load(text).unwrap_err().to_string();
        let unknown = problem("[nodes.a]\naddress = \"unix:///a\"\nca = \"c\"\nadress = 1\n");
        assert!(
            unknown.contains("config.toml: line 4") && unknown.contains("adress"),
            "{unknown}"
        );
        let address = problem("[nodes.a]\naddress = \"http://a\"\nca = \"c\"\n");
        assert!(address.contains("https://HOST:PORT"), "{address}");
        let dangling = problem("[contexts.c]\nnode = \"n\"\nuser = \"u\"\n");
        assert!(
            dangling.contains("contexts.c.node") && dangling.contains("\"n\""),
            "{dangling}"
        );
        let missing = load(TWO)
            .unwrap()
            .target(Some("x"))
            .unwrap_err()
            .to_string();
        assert!(
            missing.contains("\"x\"; there are: bench, home, lab"),
            "{missing}"
        );
    }

    #[test]
    fn contexts_are_selected_by_their_labels_in_alphabetical_order() {
        let config = load(TWO).unwrap();
        let select = |text: &str| config.select(&text.parse().unwrap());
        assert_eq!(select("role=web"), ["bench", "lab"]);
        assert_eq!(select("role=web,zone!=b"), ["bench"]);
        assert_eq!(select("!role"), ["home"]);
        assert_eq!(select(""), ["bench", "home", "lab"]);
        assert!(select("role=db").is_empty());
        assert_eq!(
            config.labels().into_iter().collect::<Vec<_>>(),
            ["role=web", "zone=b"]
        );
    }

    #[test]
    fn a_label_that_is_none_is_named_with_its_context() {
        let text = TWO.replace("zone = \"b\"", "zone = \"no spaces\"");
        let problem = load(&text).unwrap_err().to_string();
        assert!(
            problem.contains("contexts.lab.labels[\"zone\"]: \"no spaces\" must be"),
            "{problem}"
        );
    }

    #[test]
    fn a_node_is_reached_by_a_context_of_its_name_or_of_its_own() {
        let text = TWO.replace(
            "ca = \"/etc/lab/ca.pem\"",
            "ca = \"/etc/lab/ca.pem\"\nid = \"spiffe://lab.example/node/alice\"",
        );
        let config = load(&text).unwrap();
        assert_eq!(config.context_of_node("lab"), Some("lab"));
        assert_eq!(
            config.context_of_node("alice"),
            Some("bench"),
            "its node is"
        );
        assert_eq!(config.context_of_node("spiffe"), None);
        let text = text.replace("[contexts.lab]", "[contexts.other]");
        let config = load(&text).unwrap();
        assert_eq!(config.context_of_node("lab"), Some("bench"), "its node");
    }

    #[test]
    fn it_is_written_as_it_was_read() {
        let config = load(TWO).unwrap();
        let again: Config = toml::from_str(&config.to_toml().unwrap()).unwrap();
        assert_eq!(again.contexts, config.contexts);
        assert_eq!(again.nodes, config.nodes);
    }
}
