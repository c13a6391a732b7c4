// SPDX-License-Identifier: Apache-2.0
//! The syntax of unit files, case by case, as systemd.syntax(7) has it.

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> (Document, Vec<String>) {
    let mut findings = Findings::default();
    let document = parse("a.service", text.as_bytes(), &mut findings);
    (document, findings.iter().map(ToString::to_string).collect())
}

fn pairs(document: &Document) -> Vec<(&str, &str, &str)> {
    let all = document.assignments.iter();
    all.map(|it| (&*it.section, &*it.key, &*it.value)).collect()
}

#[test]
fn the_manuals_example_is_read_as_it_says() {
    // systemd.syntax(7), the first example.
    let text = "[Section A]\nKeyOne=value 1\nKeyTwo=value 2\n\n# a comment\n\n[Section B]\n\
        Setting=\"something\" \"some thing\" \"…\"\nKeyTwo=value 2 \\\n       value 2 continued\n\n\
        [Section C]\nKeyThree=value 3\\\n# this line is ignored\n; this line is ignored too\n       \
        value 3 continued\n";
    let (document, findings) = read(text);
    assert_eq!(findings, Vec::<String>::new());
    assert_eq!(
        pairs(&document),
        [
            ("Section A", "KeyOne", "value 1"),
            ("Section A", "KeyTwo", "value 2"),
            ("Section B", "Setting", "\"something\" \"some thing\" \"…\""),
            ("Section B", "KeyTwo", "value 2         value 2 continued"),
            ("Section C", "KeyThree", "value 3        value 3 continued"),
        ]
    );
}

#[test]
fn places_are_those_of_the_file() {
    let (document, _) = read("[S]\n  Key = one \\\n  two\n");
    let one = &document.assignments[0];
    assert_eq!(one.at, Position { line: 2, column: 3 });
    assert_eq!(one.position(0), Position { line: 2, column: 9 });
    let two = one.value.find("two").unwrap();
    assert_eq!(one.position(two), Position { line: 3, column: 3 });
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, expected) in [
        (
            "A=1\n",
            "a.service:1:1: warning: \"A=1\" stands before the first section; it is ignored",
        ),
        (
            "[S]\nnothing\n",
            "a.service:2:1: warning: S: \"nothing\" has no `=`; the line is ignored",
        ),
        (
            "[S]\n =1\n",
            "a.service:2:2: warning: S: there is no name before `=`; the line is ignored",
        ),
        (
            "[S\n",
            "a.service:1:1: error: \"[S\" is no section header: it lacks `]`",
        ),
    ] {
        assert_eq!(read(text).1, [expected]);
    }
}

#[test]
fn blanks_and_marks_around_are_no_part() {
    let (document, findings) = read("\u{feff}[S]\r\nA = b = c \r\n  ;x\nB=\nC=\\\\\nD=x\\");
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(
        pairs(&document),
        [
            ("S", "A", "b = c"),
            ("S", "B", ""),
            ("S", "C", "\\\\"),
            ("S", "D", "x")
        ]
    );
}

#[test]
fn what_is_too_large_is_not_read() {
    let line = format!("[S]\nA={}\n", "x".repeat(LONGEST_LINE));
    assert!(read(&line).1[0].contains("longer than"));
    let file = "#\n".repeat(LARGEST_FILE / 2 + 1);
    assert!(read(&file).1[0].contains("is not read"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_in_order(bytes: Vec<u8>) {
        let mut findings = Findings::default();
        let document = parse("x", &bytes, &mut findings);
        let lines: Vec<Position> = document.assignments.iter().map(|it| it.at).collect();
        prop_assert!(lines.is_sorted());
    }

    #[test]
    fn what_is_written_is_read(pairs in proptest::collection::vec(
        ("[A-Za-z][A-Za-z0-9]{0,9}", "[a-z0-9 =\"']{0,20}"), 0..20)) {
        let mut text = String::from("[S]\n");
        for (key, value) in &pairs {
            text.push_str(&format!("{key}={value}\n"));
        }
        let (document, findings) = read(&text);
        prop_assert!(findings.is_empty());
        let read: Vec<_> = document.assignments.iter()
            .map(|it| (it.key.clone(), it.value.clone())).collect();
        let written: Vec<_> = pairs.iter()
            .map(|(key, value)| (key.clone(), value.trim().to_owned())).collect();
        prop_assert_eq!(read, written);
    }
}
