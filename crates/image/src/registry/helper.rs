// SPDX-License-Identifier: Apache-2.0
//! Runs a credential helper (`docker-credential-NAME get`, the protocol of
//! docker-credential-helpers): the server's name goes to its stdin, JSON comes from its stdout. The
//! program gets little time and may answer little; it is killed when the caller gives up.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use zeroize::Zeroizing;

use super::credentials::{Credentials, Secret};
use super::error::{RegistryError, presentable};

/// The longest answer that is read, in bytes.
const LONGEST: u64 = 64 << 10;
/// A helper's word for "I have none", with which it ends as a failure.
const NONE_KNOWN: &str = "credentials not found";
/// The name under which a helper returns an identity token in place of a password.
const TOKEN_NAME: &str = "<token>";

/// Where helpers are and how long one may take.
#[derive(Clone, Debug)]
pub struct Helpers {
    /// Folders in which a helper is looked for. Empty: no helper is ever run.
    pub folders: Vec<PathBuf>,
    /// How long one may take.
    pub within: Duration,
}

impl Helpers {
    /// The folders of a `PATH`.
    pub fn of_path(path: Option<OsString>) -> Self {
        let folders = path.map(|path| std::env::split_paths(&path).collect());
        Self {
            folders: folders.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Asks the helper for a server's credentials; `Anonymous` where it knows none.
    ///
    /// # Errors
    /// [`RegistryError::Helper`].
    pub(crate) async fn get(&self, name: &str, server: &str) -> Result<Credentials, RegistryError> {
        let program = format!("docker-credential-{name}");
        let wrong = |problem: String| RegistryError::Helper {
            program: program.clone(),
            host: server.to_owned(),
            problem,
        };
        let plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(wrong(
                "its name has other characters than A-Z a-z 0-9 . _ -".to_owned(),
            ));
        }
        let found = self.folders.iter().map(|folder| folder.join(&program));
        let path = found
            .into_iter()
            .find(|path| path.is_absolute() && path.is_file());
        let path = path.ok_or_else(|| wrong("there is no such program on PATH".to_owned()))?;
        let asked = tokio::time::timeout(self.within, ask(&path, server)).await;
        let late = |_| wrong(format!("gave no answer within {:?}", self.within));
        let (good, answer) = asked.map_err(late)?.map_err(wrong)?;
        read(good, &answer).map_err(wrong)
    }
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            folders: Vec::new(),
            within: Duration::from_secs(10),
        }
    }
}

async fn ask(path: &Path, server: &str) -> Result<(bool, Zeroizing<Vec<u8>>), String> {
    let mut child = Command::new(path)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|problem| format!("can't be run: {problem}"))?;
    let (stdin, stdout) = child
        .stdin
        .take()
        .zip(child.stdout.take())
        .ok_or("has no pipes")?;
    let write = async move {
        let mut stdin = stdin;
        // A helper that doesn't read its stdin answers all the same.
        let _ = stdin.write_all(format!("{server}\n").as_bytes()).await;
    };
    let read = async move {
        let mut answer = Zeroizing::new(Vec::new());
        let read = stdout.take(LONGEST + 1).read_to_end(&mut answer).await;
        read.map(|_| answer)
    };
    let ((), answer) = tokio::join!(write, read);
    let answer = answer.map_err(|problem| problem.to_string())?;
    if u64::try_from(answer.len()).unwrap_or(u64::MAX) > LONGEST {
        return Err(format!("answered more than {LONGEST} bytes"));
    }
    let status = child.wait().await.map_err(|problem| problem.to_string())?;
    Ok((status.success(), answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: Secret,
}

fn read(good: bool, answer: &[u8]) -> Result<Credentials, String> {
    if !good {
        // What a failing helper prints is its error, by the protocol.
        let words = presentable(&String::from_utf8_lossy(answer));
        if words.contains(NONE_KNOWN) {
            return Ok(Credentials::Anonymous);
        }
        return Err(format!("failed: {words}"));
    }
    let answer: Answer = serde_json::from_slice(answer)
        .map_err(|_| "its answer is not JSON with Username and Secret".to_owned())?;
    let secret = answer.secret;
    Ok(if answer.username == TOKEN_NAME {
        Credentials::Identity(secret)
    } else {
        Credentials::Basic {
            username: answer.username,
            password: secret,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the helper `docker-credential-test`, a script.
    fn helper(script: &str) -> (tempfile::TempDir, Helpers) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker-credential-test");
        testkit::program(&path, &format!("#!/bin/sh\n{script}\n")).unwrap();
        let helpers = Helpers {
            folders: vec![folder.path().to_owned()],
            within: Duration::from_secs(30),
        };
        (folder, helpers)
    }

    #[tokio::test]
    async fn a_helper_is_told_the_server_and_answers() {
        let script = r#"read server; printf '{"ServerURL":"%s","Username":"ada","Secret":"%s"}' "$server" "$1/$server""#;
        let (_folder, helpers) = helper(script);
        let found = helpers.get("test", "r.example").await.unwrap();
        let expected = Credentials::Basic {
            username: "ada".to_owned(),
            password: Secret::new("get/r.example"),
        };
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn a_token_is_told_from_a_password() {
        let (_folder, helpers) = helper(r#"echo '{"Username":"<token>","Secret":"t"}'"#);
        let found = helpers.get("test", "r.example").await.unwrap();
        assert_eq!(found, Credentials::Identity(Secret::new("t")));
    }

    #[tokio::test]
    async fn a_helper_that_knows_none_means_anonymous() {
        let (_folder, helpers) = helper("echo credentials not found in native keychain; exit 1");
        assert_eq!(
            helpers.get("test", "r").await.unwrap(),
            Credentials::Anonymous
        );
    }

    #[tokio::test]
    async fn a_helper_that_fails_says_why() {
        let (_folder, helpers) = helper("echo the keychain is locked; exit 1");
        let problem = helpers.get("test", "r").await.unwrap_err().to_string();
        assert!(
            problem.contains("docker-credential-test for r"),
            "{problem}"
        );
        assert!(problem.contains("the keychain is locked"), "{problem}");
    }

    #[tokio::test]
    async fn a_helper_that_hangs_or_floods_is_given_up() {
        let (_folder, mut helpers) = helper("exec cat /dev/zero");
        let problem = helpers.get("test", "r").await.unwrap_err().to_string();
        assert!(problem.contains("more than 65536 bytes"), "{problem}");
        let (_folder, mut hanging) = helper("exec tail -f /dev/null");
        hanging.within = Duration::from_millis(200);
        let problem = hanging.get("test", "r").await.unwrap_err().to_string();
        assert!(problem.contains("no answer within"), "{problem}");
        helpers.folders.clear();
        let problem = helpers.get("test", "r").await.unwrap_err().to_string();
        assert!(problem.contains("no such program"), "{problem}");
    }

    #[tokio::test]
    async fn no_path_is_a_helpers_name() {
        let (_folder, helpers) = helper("exit 0");
        for name in ["", "../test", "a/b", "a b"] {
            let problem = helpers.get(name, "r").await.unwrap_err().to_string();
            assert!(problem.contains("its name"), "{problem}");
        }
    }
}
