// SPDX-License-Identifier: Apache-2.0
//! Presets: which units a distribution wants enabled (systemd.preset(5)). The first line that
//! matches decides; without one a unit is enabled.

use std::collections::BTreeMap;

use crate::files::{Files, Kind};
use crate::finding::{Finding, Findings, Position, Severity, shown};
use crate::glob;
use crate::name::UnitName;

/// The folders, the first one wins where two have a file of the same name.
pub const FOLDERS: [&str; 5] = [
    "/etc/systemd/system-preset",
    "/run/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
];

/// What a preset says of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Preset {
    /// Enable it; of a template these instances.
    Enable(Vec<String>),
    /// Disable it.
    Disable,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    pattern: String,
    preset: Preset,
}

/// All rules, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Presets {
    rules: Vec<Rule>,
}

impl Presets {
    /// Reads all folders: files by their names, whatever folder they are in.
    pub fn read(files: &dyn Files, folders: &[&str], findings: &mut Findings) -> Presets {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        for folder in folders {
            for entry in files.list(folder) {
                if entry.name.ends_with(".preset") && entry.kind != Kind::Folder {
                    let path = format!("{folder}/{}", entry.name);
                    found.entry(entry.name).or_insert(path);
                }
            }
        }
        let mut presets = Presets::default();
        for path in found.into_values() {
            match files.read(&path) {
                Ok(Some(bytes)) => presets.parse(&path, &bytes, findings),
                Ok(None) => {}
                Err(problem) => findings.push(warning(&path, 0, problem.0)),
            }
        }
        presets
    }

    /// Adds the rules of one file.
    pub fn parse(&mut self, path: &str, bytes: &[u8], findings: &mut Findings) {
        let text = String::from_utf8_lossy(bytes);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            let (verb, pattern) = (words.next(), words.next());
            let rest: Vec<String> = words.map(str::to_owned).collect();
            let preset = match (verb, pattern) {
                (Some("enable"), Some(_)) => Preset::Enable(rest),
                (Some("disable"), Some(_)) if rest.is_empty() => Preset::Disable,
                _ => {
                    let message = format!(
                        "{} is no rule: write `enable PATTERN [INSTANCE…]` or `disable PATTERN`; \
                         the line is ignored",
                        shown(line)
                    );
                    findings.push(warning(path, number, message));
                    continue;
                }
            };
            let pattern = pattern.unwrap_or_default().to_owned();
            self.rules.push(Rule { pattern, preset });
        }
    }

    /// What is said of a unit. An instance is enabled where its template is, for this instance.
    pub fn of(&self, unit: &UnitName) -> Preset {
        for rule in &self.rules {
            match &rule.preset {
                Preset::Enable(instances) if unit.is_instance() && !instances.is_empty() => {
                    let template = unit.template();
                    let matched =
                        template.is_some_and(|it| glob::matches(&rule.pattern, it.as_str()));
                    let named = instances.iter().any(|it| Some(&**it) == unit.instance());
                    if matched && named {
                        return Preset::Enable(Vec::new());
                    }
                }
                _ if glob::matches(&rule.pattern, unit.as_str()) => return rule.preset.clone(),
                _ => {}
            }
        }
        Preset::Enable(Vec::new())
    }
}

fn warning(path: &str, line: u32, message: String) -> Finding {
    Finding {
        severity: Severity::Warning,
        path: path.to_owned(),
        at: Position {
            line,
            column: u32::from(line > 0),
        },
        subject: String::new(),
        message,
    }
}
