// SPDX-License-Identifier: Apache-2.0
//! The daemon's configuration: no text of a file, no kernel command line and no flags make it
//! panic; a refusal names a line that the file has; and what came out of it, written as a file,
//! comes out again. Run by the fuzz target of this name and by `auraed`'s tests.

use std::path::Path;

use super::config::{ConfigError, merge};

/// Where the check pretends that the file is.
const FILE: &str = "/etc/aurae/config.toml";

/// Holds for any bytes: the file, the kernel's command line and the flags, with a NUL between two.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or_default();
    let kernel = parts.next().unwrap_or_default();
    let flags: Vec<String> = parts.map(str::to_owned).collect();
    match merge(Some((Path::new(FILE), file)), kernel, &flags) {
        Ok(loaded) => {
            let written: String = loaded
                .entries()
                .map(|(key, value, _)| format!("{key} = {value}\n"))
                .collect();
            let again = merge(Some((Path::new(FILE), &written)), "", &[]);
            let again = again.unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(again.config, loaded.config);
        }
        Err(error) => refused(&error, file),
    }
}

fn refused(error: &ConfigError, file: &str) {
    if let ConfigError::File { line, .. } = error {
        let lines = file.split('\n').count();
        assert!((1..=lines).contains(line), "line {line} of {lines}");
    }
    let shown = error.to_string();
    assert!(!shown.is_empty());
}
