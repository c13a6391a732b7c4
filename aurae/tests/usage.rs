// SPDX-License-Identifier: Apache-2.0
//! Wrong usage, without a node: what is meant is said, in words that can be typed.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::process::Command;

/// What `aurae` says of a command line that is wrong.
fn refused(line: &str) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_aurae"))
        .args(line.split(' '))
        .env_clear()
        .env("AURAE_CONFIG", "/nonexistent/config.toml")
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(2), "{line}: {said}");
    said
}

#[test]
fn flags_of_other_tools_have_hints() {
    for (line, hint) in [
        ("run -v /srv:/srv -- true", "`--read SRC[:DST]`"),
        ("run --pid host -- true", "`--share net`"),
        ("run -P -- true", "`-p 8080:80`"),
        ("cell run web --volume /srv", "`--read SRC[:DST]`"),
        (
            "run --restart always -- true",
            "aurae schedule now --restart always",
        ),
        ("run --privileged -- true", "`--cap-add ALL`"),
        ("ps --no-trunc", "`-o wide`"),
        ("logs -u nginx", "aurae logs web/nginx"),
        ("ps --wach", "did you mean `--watch`?"),
    ] {
        let said = refused(line);
        assert!(
            said.contains("hint: ") && said.contains(hint),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_flag_that_only_looks_alike_is_not_suggested() {
    for line in [
        "run --restart always -- true",
        "run --frobnicate -- true",
        "stop --rest web",
    ] {
        let said = refused(line);
        assert!(
            !said.contains("--read") && !said.contains("similar"),
            "{line}: {said}"
        );
    }
}

#[test]
fn commands_of_other_tools_have_hints() {
    for (word, hint) in [
        ("status", "aurae ps"),
        ("describe", "aurae inspect NAME"),
        ("restart", "aurae unit restart UNIT"),
        ("ls", "aurae cell ls"),
        ("get", "aurae inspect NAME"),
        ("events", "aurae ps --watch"),
        ("start", "aurae run --name NAME"),
        ("images", "aurae image ls"),
        ("enable", "aurae unit enable UNIT"),
        ("identity ls", "aurae identity user ls"),
        ("schedule run", "aurae schedule now"),
        ("tenant create", "aurae tenant set"),
        ("insepct", "did you mean `aurae inspect`?"),
    ] {
        let said = refused(word);
        assert!(said.contains(hint), "{word}: {said}");
    }
}
