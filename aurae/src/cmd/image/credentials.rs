// SPDX-License-Identifier: Apache-2.0
//! What a registry is told about the caller: `--user`, or what `docker login` has kept on this
//! machine. It goes to the node with the request, and the node keeps none of it.

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
        if let Some(username) = &self.user {
            return Ok(Some(Credentials {
                username: username.clone(),
                password: secret("password")?,
                ..Credentials::default()
            }));
        }
        if self.token_stdin {
            return Ok(Some(Credentials {
                identity_token: secret("token")?,
                ..Credentials::default()
            }));
        }
        Ok(None)
    }
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
