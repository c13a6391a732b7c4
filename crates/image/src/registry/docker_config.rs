// SPDX-License-Identifier: Apache-2.0
//! `config.json` of `docker login` (also podman's `auth.json`): which credentials are for which
//! registry, and which helper program knows them. Follows docker-config's `credHelpers`,
//! `credsStore` and `auths` in this order. The file is read anew for each pull, by the caller; no
//! program is run here (`helper` does).

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::credentials::{Credentials, Secret};
use super::error::RegistryError;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// What `docker login` without a registry writes.
const HUB_KEY: &str = "https://index.docker.io/v1/";
/// Names that all stand for Docker Hub.
const HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// A `config.json`.
#[derive(Clone, Debug, Default)]
pub struct DockerConfig {
    path: PathBuf,
    auths: BTreeMap<String, Entry>,
    helpers: BTreeMap<String, String>,
    store: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    #[serde(default)]
    creds_store: Option<String>,
}

/// One of `auths`. Fields that are empty are as if they weren't there, as Docker writes them.
#[derive(Clone, Debug, Default, Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Secret,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: Secret,
    #[serde(default)]
    identitytoken: Secret,
    #[serde(default)]
    registrytoken: Secret,
}

/// Where the credentials for a registry are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the file itself.
    Here(Credentials),
    /// With the program `docker-credential-NAME`, which is asked for this server.
    Helper {
        /// The NAME.
        name: String,
        /// What the helper calls the registry.
        server: String,
    },
}

impl DockerConfig {
    /// Reads a file. One that isn't there is empty: a user that never logged in has none.
    ///
    /// # Errors
    /// [`RegistryError::Credentials`] where it can't be read, is longer than 1 MiB or isn't JSON of
    /// that form.
    pub fn load(path: &Path) -> Result<Self, RegistryError> {
        let wrong = |problem: String| RegistryError::Credentials {
            path: path.to_owned(),
            problem,
        };
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(problem) if problem.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(problem) => return Err(wrong(problem.to_string())),
        };
        let mut text = Zeroizing::new(String::new());
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
    /// [`RegistryError::Credentials`] where it isn't JSON of that form.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RegistryError> {
        let file: File = serde_json::from_str(text).map_err(|problem| {
            // Not serde's whole message: it may quote the value, which may be a secret.
            let problem = format!(
                "not a docker config.json, line {} column {}",
                problem.line(),
                problem.column()
            );
            RegistryError::Credentials {
                path: path.to_owned(),
                problem,
            }
        })?;
        Ok(Self {
            path: path.to_owned(),
            auths: file.auths,
            helpers: file.cred_helpers,
            store: file.creds_store.filter(|it| !it.is_empty()),
        })
    }

    /// Where the credentials for a repository are. `auths` may name a part of the repository, too,
    /// as podman and Kubernetes write it: the longest that fits is taken.
    ///
    /// # Errors
    /// [`RegistryError::Credentials`] for an `auth` that isn't base64 of `name:password`.
    pub(crate) fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Found>, RegistryError> {
        let helper = self
            .helpers
            .iter()
            .find(|(key, name)| !name.is_empty() && hosts_match(host_and_path(key).0, registry));
        if let Some((key, name)) = helper {
            return Ok(Some(Found::Helper {
                name: name.clone(),
                server: server_of(key, registry),
            }));
        }
        let fitting = self.auths.iter().filter_map(|(key, entry)| {
            let (host, path) = host_and_path(key);
            let within = path.is_empty()
                || repository
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            (hosts_match(host, registry) && within).then_some((path.len(), key, entry))
        });
        let mut fitting: Vec<_> = fitting.collect();
        fitting.sort_by_key(|(length, _, _)| std::cmp::Reverse(*length));
        for (_, key, entry) in &fitting {
            if let Some(credentials) = self.read(key, entry)? {
                return Ok(Some(Found::Here(credentials)));
            }
        }
        Ok(self.store.as_ref().map(|name| Found::Helper {
            name: name.clone(),
            server: server_of("", registry),
        }))
    }

    fn read(&self, key: &str, entry: &Entry) -> Result<Option<Credentials>, RegistryError> {
        if !entry.registrytoken.is_empty() {
            return Ok(Some(Credentials::Registry(entry.registrytoken.clone())));
        }
        if !entry.identitytoken.is_empty() {
            return Ok(Some(Credentials::Identity(entry.identitytoken.clone())));
        }
        if !entry.auth.is_empty() {
            let wrong = || RegistryError::Credentials {
                path: self.path.clone(),
                problem: format!("auths.{key:?}.auth: not base64 of name:password"),
            };
            let pair = STANDARD.decode(entry.auth.expose()).map_err(|_| wrong())?;
            let pair = Zeroizing::new(String::from_utf8(pair).map_err(|_| wrong())?);
            let (username, password) = pair.split_once(':').ok_or_else(wrong)?;
            return Ok(Some(Credentials::Basic {
                username: username.to_owned(),
                // Old versions of Docker padded it.
                password: Secret::new(password.trim_end_matches('\0')),
            }));
        }
        Ok((!entry.username.is_empty()).then(|| Credentials::Basic {
            username: entry.username.clone(),
            password: entry.password.clone(),
        }))
    }
}

/// The host (with its port) and the path of a key, which may be a URL. `/v1/` and `/v2/` are the
/// protocol's version and no path of a repository.
fn host_and_path(key: &str) -> (&str, &str) {
    let key = key.strip_prefix("https://").unwrap_or(key);
    let key = key.strip_prefix("http://").unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = path.trim_matches('/');
    (
        host,
        if matches!(path, "v1" | "v2") {
            ""
        } else {
            path
        },
    )
}

fn hosts_match(key: &str, registry: &str) -> bool {
    let hub = |host: &str| HUB.contains(&host);
    key.eq_ignore_ascii_case(registry) || hub(key) && hub(registry)
}

fn server_of(key: &str, registry: &str) -> String {
    match (HUB.contains(&registry), key) {
        (true, "") => HUB_KEY.to_owned(),
        (false, "") => registry.to_owned(),
        (_, key) => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> DockerConfig {
        DockerConfig::parse(text, Path::new("config.json")).unwrap()
    }

    fn basic(username: &str, password: &str) -> Option<Found> {
        Some(Found::Here(Credentials::Basic {
            username: username.to_owned(),
            password: Secret::new(password),
        }))
    }

    #[test]
    fn what_docker_login_wrote_is_found_under_each_name_of_the_registry() {
        let config = config(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "YWRhOnM6ZWNyZXQA"},
                "https://registry.example:5000/v2/": {"auth": "", "username": "bob", "password": "x"},
                "other.example": {}
            }, "HttpHeaders": {"User-Agent": "Docker"}}"#,
        );
        for hub in HUB {
            assert_eq!(
                config.find(hub, "library/nginx").unwrap(),
                basic("ada", "s:ecret")
            );
        }
        let found = config.find("Registry.example:5000", "a").unwrap();
        assert_eq!(found, basic("bob", "x"));
        assert_eq!(config.find("registry.example", "a").unwrap(), None);
        assert_eq!(config.find("other.example", "a").unwrap(), None);
    }

    #[test]
    fn the_longest_path_that_fits_is_taken() {
        let config = config(
            r#"{"auths": {
                "r.example": {"username": "all", "password": ""},
                "r.example/team": {"username": "team", "password": ""},
                "r.example/team/app": {"username": "app", "password": ""}
            }}"#,
        );
        let found = |repository: &str| config.find("r.example", repository).unwrap();
        assert_eq!(found("team/app"), basic("app", ""));
        assert_eq!(found("team/application"), basic("team", ""));
        assert_eq!(found("teams/app"), basic("all", ""));
    }

    #[test]
    fn helpers_come_before_entries_and_the_store_after_them() {
        let config = config(
            r#"{"auths": {"a.example": {"username": "x"}, "https://index.docker.io/v1/": {}},
                "credHelpers": {"a.example": "gcloud"}, "credsStore": "pass"}"#,
        );
        let helper = |name: &str, server: &str| {
            Some(Found::Helper {
                name: name.to_owned(),
                server: server.to_owned(),
            })
        };
        assert_eq!(
            config.find("a.example", "r").unwrap(),
            helper("gcloud", "a.example")
        );
        assert_eq!(
            config.find("b.example", "r").unwrap(),
            helper("pass", "b.example")
        );
        assert_eq!(
            config.find("docker.io", "r").unwrap(),
            helper("pass", HUB_KEY)
        );
    }

    #[test]
    fn tokens_are_told_from_passwords() {
        let config = config(
            r#"{"auths": {"a": {"identitytoken": "i", "auth": "eDp5"}, "b": {"registrytoken": "r"}}}"#,
        );
        let identity = Found::Here(Credentials::Identity(Secret::new("i")));
        assert_eq!(config.find("a", "r").unwrap(), Some(identity));
        let registry = Found::Here(Credentials::Registry(Secret::new("r")));
        assert_eq!(config.find("b", "r").unwrap(), Some(registry));
    }

    #[test]
    fn a_wrong_file_is_named_and_its_secrets_are_not() {
        let text = r#"{"auths": {"a": {"auth": "hunter2!"}}}"#;
        let problem = config(text).find("a", "r").unwrap_err().to_string();
        assert!(
            problem.contains("config.json") && problem.contains("\"a\""),
            "{problem}"
        );
        assert!(!problem.contains("hunter2"), "{problem}");
        let text = r#"{"auths": "hunter2"}"#;
        let problem = DockerConfig::parse(text, Path::new("config.json"))
            .unwrap_err()
            .to_string();
        assert!(
            problem.contains("line 1") && !problem.contains("hunter2"),
            "{problem}"
        );
    }

    #[test]
    fn no_file_is_no_credentials() {
        let config = DockerConfig::load(Path::new("/nonexistent/config.json")).unwrap();
        assert_eq!(config.find("docker.io", "library/nginx").unwrap(), None);
    }

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        assert!(DockerConfig::load(Path::new("/dev/zero")).is_err());
    }
}
