// SPDX-License-Identifier: Apache-2.0
//! What a registry is told about the caller: a name or a token, with the secret from standard
//! input. It goes to the node with the request, and the node keeps none of it.

use std::io::{IsTerminal, Read};

use api::image::v0::Credentials;

use crate::failure::Failure;

/// The longest password that is read from standard input, in bytes.
const LONGEST: u64 = 64 << 10;

/// `--user` and `--password-stdin`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CredentialArgs {
    /// Your name at the registry; the password is read from standard input
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,
    /// An identity token of the registry, read from standard input
    #[arg(long, conflicts_with = "user")]
    token_stdin: bool,
}

impl CredentialArgs {
    /// The credentials; `None`: the node's own for that registry.
    pub(super) fn read(&self) -> Result<Option<Credentials>, Failure> {
        read(self.user.as_deref(), self.token_stdin)
    }
}

/// The same for commands that run an image, whose `--user` is the program's.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The image's registry")]
pub(crate) struct RegistryFlags {
    /// Your name at the image's registry; the password is read from standard input
    #[arg(long, value_name = "NAME")]
    pub(crate) registry_user: Option<String>,
    /// An identity token of the registry, read from standard input
    #[arg(long, conflicts_with = "registry_user")]
    pub(crate) registry_token_stdin: bool,
}

impl RegistryFlags {
    /// The credentials; `None`: the node's own for that registry.
    pub(crate) fn read(&self) -> Result<Option<Credentials>, Failure> {
        read(self.registry_user.as_deref(), self.registry_token_stdin)
    }

    /// Whether standard input has a secret.
    pub(crate) fn take_stdin(&self) -> bool {
        self.registry_user.is_some() || self.registry_token_stdin
    }
}

fn read(user: Option<&str>, token: bool) -> Result<Option<Credentials>, Failure> {
    Ok(match (user, token) {
        (Some(user), _) => Some(Credentials {
            username: user.to_owned(),
            password: secret("password")?,
            ..Credentials::default()
        }),
        (None, true) => Some(Credentials {
            identity_token: secret("token")?,
            ..Credentials::default()
        }),
        (None, false) => None,
    })
}

fn secret(what: &str) -> Result<String, Failure> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(Failure::usage(format!(
            "the {what} is read from standard input, which is a terminal"
        ))
        .with_hint(format!("aurae image pull … < {what}-file")));
    }
    let mut text = String::new();
    input.by_ref().take(LONGEST).read_to_string(&mut text)?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(Failure::usage(format!("standard input has no {what}")));
    }
    Ok(text.to_owned())
}
