// SPDX-License-Identifier: Apache-2.0
//! Programs: what the limits let through is parsed, outlined, compiled and checked, or refused with
//! a place, and takes nothing down. Every position of the code leads somewhere in the source. Run
//! by the fuzz target of this name and by `language`'s tests.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use language::check::{Environment, File};
use language::compile::{Options, compile, is_unfinished};
use language::finding::Finding;
use language::program::{Entry, NoFiles, Program};
use language::source::Source;

/// The language's own types, read once.
static ENVIRONMENT: LazyLock<Arc<Environment>> = LazyLock::new(|| {
    let types = language::declare::aurae_d_ts().expect("the descriptors are sound");
    Arc::new(Environment::new(types))
});

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let source = Source::new("a.ts", text);
    for plan in [false, true] {
        compiled(&source, Options { plan });
    }
    let entry = Entry::Text {
        name: "<fuzz>".into(),
        text: text.into(),
    };
    if let Ok(program) = Program::load(&NoFiles, entry, &["runtime"]) {
        let found = language::check::check_program(&ENVIRONMENT, &program);
        sound(&found);
        let _ = language::check::expected(&ENVIRONMENT, &program);
    }
    let file = File {
        source,
        imports: HashMap::new(),
    };
    sound(&language::check::check(&ENVIRONMENT, &[file]));
    let _ = is_unfinished(text);
}

fn compiled(source: &Source, options: Options) {
    let compiled = match compile(source, options) {
        Ok(compiled) => compiled,
        Err(findings) => {
            assert!(!findings.is_empty());
            return sound(&findings);
        }
    };
    for (line, text) in (1u32..).zip(compiled.code.lines().take(64)) {
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        for column in [1, end / 2 + 1, end + 1] {
            if let Some(place) = compiled.original(line, column) {
                assert!(source.offset(place).is_some());
            }
        }
    }
}

/// Each has a place and can be shown.
fn sound(findings: &[Finding]) {
    for finding in findings {
        assert!(finding.span.start <= finding.span.end);
        assert!(language::frame::text(finding, false).contains(&*finding.code));
    }
}
