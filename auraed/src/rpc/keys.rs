// SPDX-License-Identifier: Apache-2.0
//! Credentials for registries that come with a request whose images are pulled first. They live as
//! long as the call, are in no record and no log, and each is shown to its own registry alone.

use std::collections::BTreeMap;

use api::image::v0 as wire;
use image::Reference;
use image::registry::Credentials;
use model::error::{Error, Result, Within};

use super::image::credentials;

/// The most registries of one request.
const MOST: usize = 32;
/// The longest name of one, in bytes.
const LONGEST: usize = 255;

/// Credentials by registry.
#[derive(Default)]
pub(crate) struct Keys(BTreeMap<String, Credentials>);

impl Keys {
    /// Checks those of a request.
    ///
    /// # Errors
    /// `INVALID_FIELD`, naming the field.
    pub(super) fn of(list: Vec<wire::RegistryCredentials>) -> Result<Self> {
        if list.len() > MOST {
            let problem = format!("has {} entries; at most {MOST} are taken", list.len());
            return Err(Error::invalid("registry_credentials", problem));
        }
        let mut keys = BTreeMap::new();
        for (i, one) in list.into_iter().enumerate() {
            let at = format!("registry_credentials[{i}]");
            check_registry(&one.registry).within(&at)?;
            let Some(given) = one.credentials else {
                return Err(Error::invalid(format!("{at}.credentials"), "is required"));
            };
            let given = credentials(given).within(&at)?;
            if keys.insert(one.registry, given).is_some() {
                return Err(Error::invalid(format!("{at}.registry"), "is given twice"));
            }
        }
        Ok(Self(keys))
    }

    /// What the registry of an image is shown; `None`: what it is without the request's.
    pub(super) fn for_image(&self, image: &Reference) -> Option<Credentials> {
        self.0.get(image.registry()).cloned()
    }
}

fn check_registry(name: &str) -> Result<()> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b);
    match !name.is_empty() && name.len() <= LONGEST && name.bytes().all(good) {
        true => Ok(()),
        false => Err(Error::invalid("registry", "is no name of a registry")
            .hint("write it as in the images' full names: docker.io, registry.example:5000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(registry: &str, username: &str) -> wire::RegistryCredentials {
        wire::RegistryCredentials {
            registry: registry.to_owned(),
            credentials: Some(wire::Credentials {
                username: username.to_owned(),
                password: "secret".to_owned(),
                ..Default::default()
            }),
        }
    }

    #[test]
    fn credentials_are_shown_to_their_own_registry_alone() {
        let all = vec![one("docker.io", "ann"), one("registry.test:5000", "bob")];
        let keys = Keys::of(all).unwrap();
        let shown = |image: &str| {
            let image = image.parse::<Reference>().unwrap();
            match keys.for_image(&image) {
                Some(Credentials::Basic { username, .. }) => Some(username),
                _ => None,
            }
        };
        assert_eq!(shown("nginx").as_deref(), Some("ann"));
        assert_eq!(shown("registry.test:5000/a/b:1").as_deref(), Some("bob"));
        assert_eq!(shown("registry.test/a/b:1"), None);
        assert_eq!(shown("evil.test/docker.io/nginx"), None);
    }

    #[test]
    fn what_is_no_registry_or_twice_is_named() {
        let refused = |list| {
            let error = Keys::of(list).err().unwrap();
            error.field.clone().unwrap_or_default()
        };
        let twice = vec![one("a", "ann"), one("a", "bob")];
        assert_eq!(refused(twice), "registry_credentials[1].registry");
        for wrong in ["", "https://a", "a/b"] {
            let field = "registry_credentials[0].registry";
            assert_eq!(refused(vec![one(wrong, "ann")]), field);
        }
        let mut none = one("a", "ann");
        none.credentials = None;
        assert_eq!(refused(vec![none]), "registry_credentials[0].credentials");
        assert_eq!(refused(vec![one("a", "x"); 33]), "registry_credentials");
    }
}
