// SPDX-License-Identifier: Apache-2.0
//! A plan as a file: `aurae plan --out FILE` writes it, `aurae apply FILE` makes exactly its
//! changes. It holds the changes and the path of the program, not the program: that is read again,
//! and must be the same.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use script::reconcile::change::{Change, Report};
use serde::{Deserialize, Serialize};

use super::declaring::{Claimed, DeclaringArgs};
use super::script::execute::Done;
use crate::failure::Failure;
use crate::global::Global;

/// The value of `form` in such a file: its kind and version.
const FORM: &str = "aurae plan 1";
/// The longest that is read, in bytes.
const MOST: u64 = 16 << 20;

/// A plan as it is in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    form: String,
    /// The program's file, absolute.
    pub(crate) file: PathBuf,
    /// The arguments that the program gets.
    pub(crate) args: Vec<String>,
    /// The set, and how far it goes.
    pub(crate) set: Claimed,
    /// A fingerprint of everything that was read of it.
    pub(crate) digest: String,
    /// The command line's node and tenant.
    pub(crate) node: Option<String>,
    pub(crate) tenant: Option<String>,
    /// The context that the plan was made for where the program names none.
    context: String,
    /// The changes that the plan showed.
    pub(crate) report: Report,
}

impl Saved {
    pub(crate) fn new(
        global: &Global,
        declaring: &DeclaringArgs,
        done: &Done,
        report: Report,
    ) -> Self {
        let file = &declaring.file;
        Self {
            form: FORM.to_owned(),
            file: std::path::absolute(file).unwrap_or_else(|_| file.clone()),
            args: declaring.args.clone(),
            set: declaring.claimed(&report.set),
            digest: done.digest.clone(),
            context: done.nodes.name(None),
            node: global.node.clone(),
            tenant: global.tenant.clone(),
            report,
        }
    }

    /// The command line's options with the node and the tenant that the plan was made for.
    pub(crate) fn global(&self, global: &Global) -> Result<Global, Failure> {
        for (option, now, planned) in [
            ("--node", &global.node, &self.node),
            ("--tenant", &global.tenant, &self.tenant),
        ] {
            if now.is_some() && now != planned {
                let message = format!("the plan was made for another {option}");
                return Err(Failure::usage(message).with_hint("leave the option out"));
            }
        }
        Ok(Global {
            node: self.node.clone(),
            tenant: self.tenant.clone(),
            ..global.clone()
        })
    }

    /// Writes it, readable for its owner alone: a plan shows much of a node.
    pub(crate) fn write(&self, to: &Path) -> Result<(), Failure> {
        let fail = |problem: &dyn std::fmt::Display| {
            Failure::new(format!(
                "can't write the plan to {}: {problem}",
                to.display()
            ))
        };
        let text = serde_json::to_string_pretty(self).map_err(|problem| fail(&problem))?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(to).map_err(|problem| fail(&problem))?;
        // Of a file that was there already, too.
        if file.metadata().is_ok_and(|it| it.is_file()) {
            let own = Permissions::from_mode(0o600);
            file.set_permissions(own)
                .map_err(|problem| fail(&problem))?;
        }
        writeln!(file, "{text}").map_err(|problem| fail(&problem))
    }

    /// The plan in that file; none where it is something else, such as a program.
    pub(crate) fn read(from: &Path) -> Result<Option<Self>, Failure> {
        let fail = |problem: &dyn std::fmt::Display| {
            Failure::new(format!(
                "the plan {} can't be read: {problem}",
                from.display()
            ))
        };
        let Ok(file) = File::open(from) else {
            return Ok(None);
        };
        let mut text = String::new();
        if file.take(MOST).read_to_string(&mut text).is_err() || !text.contains(FORM) {
            return Ok(None);
        }
        if !text.trim_start().starts_with('{') {
            return Ok(None);
        }
        let saved: Self = serde_json::from_str(&text).map_err(|problem| fail(&problem))?;
        Ok(Some(saved).filter(|saved| saved.form == FORM))
    }

    /// Checks that an apply would make the same changes now.
    ///
    /// # Errors
    /// The program, the current context, or the objects on the node have changed since; the message
    /// names the change.
    pub(crate) fn check(&self, done: &Done, now: &Report) -> Result<(), Failure> {
        // Two nodes with nothing on them would look alike.
        let context = done.nodes.name(None);
        if context != self.context {
            return Err(moved(format!(
                "the plan was made for the context {:?}, and {context:?} is current now",
                self.context
            )));
        }
        if done.digest != self.digest {
            return Err(moved(
                "the program has changed since the plan was made".to_owned(),
            ));
        }
        let before = self.report.changes.iter().map(place_apart);
        let now: Vec<_> = now.changes.iter().map(place_apart).collect();
        let before: Vec<_> = before.collect();
        match before.iter().zip(&now).find(|(one, other)| one != other) {
            Some((planned, would)) => Err(moved(format!(
                "the node has changed since the plan: planned {}, now {}",
                said(planned),
                said(would)
            ))),
            None if before.len() != now.len() => Err(moved(format!(
                "the node has changed since the plan: planned {} changes, now {}",
                before.len(),
                now.len()
            ))),
            None => Ok(()),
        }
    }
}

fn place_apart(change: &Change) -> Change {
    Change {
        at: None,
        ..change.clone()
    }
}

fn said(change: &Change) -> String {
    let fields: Vec<_> = change
        .differences
        .iter()
        .map(|one| one.field.as_str())
        .collect();
    let word = serde_json::to_value(change.action).unwrap_or_default();
    let word = word.as_str().unwrap_or_default().to_owned();
    match fields.is_empty() {
        true => format!("{word} {} {}", change.kind, change.name),
        false => format!(
            "{word} {} {} ({})",
            change.kind,
            change.name,
            fields.join(", ")
        ),
    }
}

fn moved(message: String) -> Failure {
    Failure::new(message).with_hint("plan again, look at it, and apply that")
}
