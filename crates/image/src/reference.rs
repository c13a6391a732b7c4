// SPDX-License-Identifier: Apache-2.0
//! Names of images: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`, by the grammar of the distribution
//! specification and with Docker's defaults (`docker.io`, `library/`, `latest`), so that a name
//! means here what it means to `docker pull`. Pure; resolves nothing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::{ImageError, Result};

/// The longest repository with its registry, in bytes: what `distribution` and Docker accept.
pub const MAX_NAME: usize = 255;
/// The longest tag, in bytes (distribution specification, "Pulling manifests").
pub const MAX_TAG: usize = 128;

const DOCKER: &str = "docker.io";
const LATEST: &str = "latest";

/// An image's full name. Has a tag, a digest or both; the digest decides where both are there.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Host, with `:PORT` where one was given; `docker.io` by default.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path below the registry: `library/nginx`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// `None` only where there is a digest.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// What the image is pinned to.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// What a registry is asked for: the digest, or else the tag.
    pub fn wanted(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => LATEST.to_owned(),
        }
    }

    /// The same repository at this digest.
    pub fn at(&self, digest: &Digest) -> Self {
        Self {
            tag: None,
            digest: Some(digest.clone()),
            ..self.clone()
        }
    }

    /// The form that people write: without Docker's defaults.
    pub fn familiar(&self) -> String {
        let mut text = match (self.registry.as_str(), self.repository.split_once('/')) {
            (DOCKER, Some(("library", name))) if !name.contains('/') => name.to_owned(),
            (DOCKER, _) => self.repository.clone(),
            (registry, _) => format!("{registry}/{}", self.repository),
        };
        self.append(&mut text);
        text
    }

    fn append(&self, text: &mut String) {
        if let Some(tag) = &self.tag {
            text.push(':');
            text.push_str(tag);
        }
        if let Some(digest) = &self.digest {
            text.push('@');
            text.push_str(&digest.to_string());
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{}/{}", self.registry, self.repository);
        self.append(&mut text);
        f.write_str(&text)
    }
}

impl FromStr for Reference {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|problem| match problem {
            Problem::Words(problem) => ImageError::malformed("reference", text, problem),
            Problem::Digest(error) => error,
        })
    }
}

impl TryFrom<String> for Reference {
    type Error = ImageError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

enum Problem {
    Words(&'static str),
    Digest(ImageError),
}

impl From<&'static str> for Problem {
    fn from(words: &'static str) -> Self {
        Self::Words(words)
    }
}

fn parse(text: &str) -> std::result::Result<Reference, Problem> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest.parse().map_err(Problem::Digest)?)),
        None => (text, None),
    };
    let (name, tag) = split_tag(rest);
    let (registry, repository) = split_registry(name);
    check_registry(&registry)?;
    check_repository(&repository)?;
    if registry.len() + 1 + repository.len() > MAX_NAME {
        return Err("the name is longer than 255 bytes".into());
    }
    if let Some(tag) = tag {
        check_tag(tag)?;
    }
    let tag = match (tag, &digest) {
        (None, None) => Some(LATEST.to_owned()),
        (tag, _) => tag.map(str::to_owned),
    };
    Ok(Reference {
        registry,
        repository,
        tag,
        digest,
    })
}

/// A colon behind the last slash is a tag's; one before it is a port's.
fn split_tag(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains(['/', ']']) => (name, Some(tag)),
        _ => (text, None),
    }
}

/// The first part is a registry where it could be no repository's: it has a dot, a colon or an
/// upper-case letter, or is `localhost`. (`distribution/reference`, `splitDockerDomain`)
fn split_registry(name: &str) -> (String, String) {
    let upper = |text: &str| text.contains(|c: char| c.is_ascii_uppercase());
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':']) || first == "localhost" || upper(first) =>
        {
            (first, rest)
        }
        _ => (DOCKER, name),
    };
    match registry {
        DOCKER | "index.docker.io" if !repository.contains('/') => {
            (DOCKER.to_owned(), format!("library/{repository}"))
        }
        DOCKER | "index.docker.io" => (DOCKER.to_owned(), repository.to_owned()),
        other => (other.to_owned(), repository.to_owned()),
    }
}

fn check_registry(registry: &str) -> std::result::Result<(), &'static str> {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => {
            let (address, behind) = rest
                .split_once(']')
                .ok_or("the [ of the registry is open")?;
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err("what is between [ and ] must be an IPv6 address");
            }
            (
                None,
                behind
                    .strip_prefix(':')
                    .or((!behind.is_empty()).then_some("")),
            )
        }
        None => match registry.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(registry), None),
        },
    };
    if let Some(port) = port
        && (port.starts_with('+') || port.parse::<u16>().map_or(true, |port| port == 0))
    {
        return Err("the registry's port must be a number from 1 to 65535");
    }
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.is_some_and(|host| !host.split('.').all(label)) {
        return Err("the registry must be a host name or [IPv6 address]");
    }
    Ok(())
}

/// `[a-z0-9]+` with separators `.`, `_`, `__` or any number of `-` between, per component.
fn check_repository(repository: &str) -> std::result::Result<(), &'static str> {
    if repository.is_empty() {
        return Err("the name of the image is missing");
    }
    if repository.contains(|c: char| c.is_ascii_uppercase()) {
        return Err("the repository must be in lower case");
    }
    if !repository.split('/').all(is_component) {
        return Err("parts of the repository are a-z and 0-9, with . _ __ or - between");
    }
    let id = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if repository.strip_prefix("library/").is_some_and(id) {
        return Err("64 hexadecimal digits are an image's id, not its name");
    }
    Ok(())
}

fn is_component(component: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let outer = component.starts_with(word) && component.ends_with(word);
    let separator = |text: &str| match text {
        "" | "." | "_" | "__" => true,
        dashes => dashes.bytes().all(|byte| byte == b'-'),
    };
    outer && component.split(word).all(separator)
}

fn check_tag(tag: &str) -> std::result::Result<(), &'static str> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let inner = |byte: u8| word(byte) || matches!(byte, b'.' | b'-');
    let first = tag.bytes().next().is_some_and(word);
    if !first || !tag.bytes().all(inner) {
        return Err("a tag is of A-Z a-z 0-9 _ . - and begins with none of . and -");
    }
    if tag.len() > MAX_TAG {
        return Err("a tag has at most 128 bytes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(text: &str) -> String {
        text.parse::<Reference>().unwrap().to_string()
    }

    #[test]
    fn a_name_means_what_it_means_to_docker() {
        for (text, means) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("grafana/grafana", "docker.io/grafana/grafana:latest"),
            ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
            ("docker.io/a/b:c", "docker.io/a/b:c"),
            ("localhost/a", "localhost/a:latest"),
            ("localhost:5000/a:b", "localhost:5000/a:b"),
            ("quay.io/x/y/z", "quay.io/x/y/z:latest"),
            ("[::1]:5000/a", "[::1]:5000/a:latest"),
            ("[2001:db8::1]/a/b:c", "[2001:db8::1]/a/b:c"),
            ("Registry/a", "Registry/a:latest"),
            ("a__b/c--d.e_f", "docker.io/a__b/c--d.e_f:latest"),
        ] {
            assert_eq!(full(text), means, "{text}");
            assert_eq!(full(&full(text)), means, "what is printed is read alike");
            let short = text.parse::<Reference>().unwrap().familiar();
            assert_eq!(full(&short), means, "{short}");
        }
    }

    #[test]
    fn a_digest_decides_and_no_tag_is_made_up_beside_it() {
        let digest = Digest::of(b"x");
        let pinned: Reference = format!("nginx@{digest}").parse().unwrap();
        assert_eq!((pinned.tag(), pinned.digest()), (None, Some(&digest)));
        assert_eq!(pinned.wanted(), digest.to_string());
        let both: Reference = format!("nginx:1@{digest}").parse().unwrap();
        assert_eq!((both.tag(), both.wanted()), (Some("1"), digest.to_string()));
        assert_eq!(both.at(&digest), pinned);
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_is_wrong() {
        let id = "0123456789abcdef".repeat(4);
        let long = format!("a/{}", "b".repeat(250));
        let tag = format!("a:{}", "b".repeat(129));
        for text in [
            "",
            "/",
            "a/",
            "/a",
            "Nginx",
            "a//b",
            "a/../b",
            "a:",
            "a:-b",
            "a@sha256:1",
            "a b",
            "-a",
            "a-",
            "a___b",
            "a..b",
            "http://a/b",
            "a.b:0/c",
            "a.b:65536/c",
            "a.b:x/c",
            "[::1/a",
            "[x]/a",
            "-a.b/c",
            "a\0b",
            "ä",
            &id,
            &long,
            &tag,
            "[::1]x/a",
            "a.b:+1/c",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
    }
}
