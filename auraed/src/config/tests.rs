// SPDX-License-Identifier: Apache-2.0
//! The layers of the configuration, as an administrator uses them.

use super::*;
use crate::config;

#[path = "../../../fuzz/checks/config.rs"]
mod checks;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

fn with_file(text: &str) -> (tempfile::NamedTempFile, Sources) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let sources = Sources {
        file: Some(file.path().to_owned()),
        ..Sources::default()
    };
    (file, sources)
}

fn error(text: &str) -> String {
    let (file, sources) = with_file(text);
    let message = sources.load().unwrap_err().to_string();
    message.replace(&file.path().display().to_string(), "FILE")
}

fn origin_of(loaded: &Loaded, key: &str) -> String {
    loaded
        .entries()
        .find(|(k, ..)| *k == key)
        .map(|(_, _, origin)| origin.to_string())
        .unwrap()
}

#[test]
fn an_empty_file_is_the_defaults() {
    let (_file, sources) = with_file("");
    let loaded = sources.load().unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(origin_of(&loaded, "limits.cells"), "default");
}

#[test]
fn each_layer_wins_over_the_one_before_and_says_so() {
    let (file, mut sources) =
        with_file("[limits]\n\ncells = 1\nexecutables = 1\nconnections = 1\n");
    sources.kernel_command_line =
        "quiet aurae.limits.executables=2 root=/dev/vda aurae.limits.connections=2".to_owned();
    sources.flags = vec!["limits.connections=3".to_owned()];
    let loaded = sources.load().unwrap();
    let limits = &loaded.config.limits;
    assert_eq!(
        (limits.cells, limits.executables, limits.connections),
        (1, 2, 3)
    );
    assert_eq!(
        origin_of(&loaded, "limits.cells"),
        format!("{}:3", file.path().display())
    );
    assert_eq!(
        origin_of(&loaded, "limits.executables"),
        "kernel command line"
    );
    assert_eq!(origin_of(&loaded, "limits.connections"), "flag");
}

#[test]
fn an_unknown_key_is_named_with_file_and_line() {
    let message = error("[node]\nname = \"alice\"\ncolour = \"red\"\n");
    assert!(
        message.starts_with("FILE:3: node.colour: unknown field `colour`"),
        "{message}"
    );
}

#[test]
fn a_wrong_type_is_named_with_file_and_line_and_what_was_expected() {
    let message = error("[limits]\ncells = \"many\"\n");
    assert!(
        message.starts_with("FILE:2: limits.cells: invalid type: string \"many\""),
        "{message}"
    );
    let message = error("[logs]\nmax_size = \"64 parsecs\"\n");
    assert!(
        message.contains("expected a number of bytes such as 1048576, 64M or 1.5G"),
        "{message}"
    );
}

#[test]
fn a_single_value_where_a_list_belongs_is_shown_as_a_list() {
    let message = error("[api]\nlisten = \":7443\"\n");
    assert!(
        message.starts_with("FILE:2: api.listen: write a list: [\":7443\"]"),
        "{message}"
    );
}

#[test]
fn a_syntax_error_is_named_with_file_and_line() {
    assert!(error("[node]\nname = \n").starts_with("FILE:2: "));
}

#[test]
fn a_wrong_word_on_the_kernel_command_line_is_named() {
    let sources = Sources {
        kernel_command_line: "aurae.limits.cells=many".to_owned(),
        ..Sources::default()
    };
    let message = sources.load().unwrap_err().to_string();
    assert!(
        message.starts_with("kernel command line: limits.cells=many: invalid type"),
        "{message}"
    );
    let sources = Sources {
        flags: vec!["nonsense=1".to_owned()],
        ..Sources::default()
    };
    let message = sources.load().unwrap_err().to_string();
    assert!(
        message.starts_with("flag: nonsense=1: unknown field `nonsense`"),
        "{message}"
    );
}

#[test]
fn a_missing_file_matters_only_where_it_was_asked_for() {
    let sources = Sources {
        file: Some("/nonexistent/config.toml".into()),
        ..Sources::default()
    };
    let message = sources.load().unwrap_err().to_string();
    assert!(
        message.starts_with("/nonexistent/config.toml: "),
        "{message}"
    );
}

#[test]
fn quoted_words_of_the_kernel_command_line_stay_together() {
    let words = layer::kernel_assignments("a aurae.boot.run=\"/bin/sh -c true\" \"aurae.x=a b\" b");
    assert_eq!(words, ["boot.run=/bin/sh -c true", "x=a b"]);
}

#[test]
fn a_number_may_stand_for_a_name() {
    let sources = Sources {
        flags: vec!["node.name=7".to_owned()],
        ..Sources::default()
    };
    assert_eq!(sources.load().unwrap().config.node.name, "7");
}

#[test]
fn changes_are_split_by_when_they_take_effect() {
    let before = Sources::default().load().unwrap();
    let flags = vec!["logs.max_size=1M".to_owned(), "node.name=bob".to_owned()];
    let after = Sources {
        flags,
        ..Sources::default()
    }
    .load()
    .unwrap();
    let (now, later) = before.changes(&after);
    assert_eq!(
        (now, later),
        (
            vec!["logs.max_size".to_owned()],
            vec!["node.name".to_owned()]
        )
    );
}

/// The inputs that fuzzing has kept (`fuzz/seeds/config`), without a fuzzer.
#[test]
fn fuzzed_configurations_do_no_harm() {
    replay::replay("config", checks::check);
}

#[test]
fn thresholds_that_contradict_each_other_are_refused() {
    let merged = |text: &str| merge(Some((Path::new("f"), text)), "", &[]);
    assert!(merged("[images]\nhigh_threshold = 100\nlow_threshold = 100").is_ok());
    for (text, key) in [
        ("[images]\nhigh_threshold = 101", "images.high_threshold"),
        ("[images]\nlow_threshold = 90", "images.low_threshold"),
    ] {
        let error = merged(text).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}
