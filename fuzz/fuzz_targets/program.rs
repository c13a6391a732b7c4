// SPDX-License-Identifier: Apache-2.0
//! Programs: what the limits let through is parsed, outlined and compiled or refused with a place,
//! and takes nothing down. Every position of the code leads somewhere in the source.
#![no_main]

use language::compile::{Options, compile, is_unfinished};
use language::program::{Entry, NoFiles, Program};
use language::source::Source;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let source = Source::new("a.ts", text);
    for plan in [false, true] {
        match compile(&source, Options { plan }) {
            Ok(compiled) => {
                for (line, text) in (1u32..).zip(compiled.code.lines().take(64)) {
                    let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    for column in [1, end / 2 + 1, end + 1] {
                        if let Some(place) = compiled.original(line, column) {
                            assert!(source.offset(place).is_some());
                        }
                    }
                }
            }
            Err(findings) => {
                assert!(!findings.is_empty());
                for finding in findings {
                    assert!(finding.span.start <= finding.span.end);
                    assert!(language::frame::text(&finding, false).contains(&finding.code));
                }
            }
        }
    }
    let entry = Entry::Text {
        name: "<fuzz>".into(),
        text: text.into(),
    };
    let _ = Program::load(&NoFiles, entry, &["runtime"]);
    let _ = is_unfinished(text);
});
