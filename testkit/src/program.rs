// SPDX-License-Identifier: Apache-2.0
//! Programs that a test writes and then has executed.

use std::io::{Error, Result, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable file. Another process does it: a child that another thread forks meanwhile
/// would hold our descriptor open for writing, and the kernel executes no such file (`ETXTBSY` of
/// execve(2)).
///
/// # Errors
/// Where the file can't be written.
pub fn program(path: &Path, text: &str) -> Result<()> {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = writer.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    match writer.wait()?.success() {
        true => Ok(()),
        false => Err(Error::other(format!("{} was not written", path.display()))),
    }
}
