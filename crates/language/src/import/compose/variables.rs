// SPDX-License-Identifier: Apache-2.0
//! The variables of a Compose file: a program asks for them by `values`, so that `--values` gives
//! them, and its defaults are the file's.

use std::collections::BTreeMap;

use super::text::{Piece, pieces};
use crate::import::write::{Expression, in_template, quoted};

/// The constant that holds them.
pub(super) const SETTINGS: &str = "settings";

/// Those that were met.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// With their defaults; none: the user that applies must say it.
    met: BTreeMap<String, Option<String>>,
}

impl Variables {
    /// A text as a program writes it, with its variables.
    pub(super) fn text(&mut self, raw: &str) -> Expression {
        self.written(raw, |text| text.to_owned())
    }

    /// The same where `$(NAME)` would be replaced by the node: it isn't in a Compose file.
    pub(super) fn expanded(&mut self, raw: &str) -> Expression {
        self.written(raw, |text| text.replace("$(", "$$("))
    }

    fn written(&mut self, raw: &str, change: impl Fn(&str) -> String) -> Expression {
        let pieces = pieces(raw);
        match pieces.as_slice() {
            [] => return Expression::Text(String::new()),
            [Piece::Text(text)] => return Expression::Text(change(text)),
            [Piece::Variable { name, default }] => {
                return Expression::Code(self.of(name, default.as_deref()));
            }
            _ => {}
        }
        let mut template = String::from("`");
        for piece in pieces {
            match piece {
                Piece::Text(text) => template.push_str(&in_template(&change(&text))),
                Piece::Variable { name, default } => {
                    let code = self.of(&name, default.as_deref());
                    template.push_str(&format!("${{{code}}}"));
                }
                Piece::Where { name, text } => {
                    let (code, text) = (self.of(&name, Some("")), quoted(&text));
                    template.push_str(&format!("${{{code} === \"\" ? \"\" : {text}}}"));
                }
            }
        }
        template.push('`');
        Expression::Code(template)
    }

    /// `settings.TAG`.
    pub(super) fn of(&mut self, name: &str, default: Option<&str>) -> String {
        let known = self.met.entry(name.to_owned()).or_default();
        if known.is_none() {
            *known = default.map(str::to_owned);
        }
        format!("{SETTINGS}.{name}")
    }

    /// The statement that asks for them.
    pub(super) fn statement(&self) -> Option<String> {
        if self.met.is_empty() {
            return None;
        }
        let fields = self.met.iter().map(|(name, default)| {
            let default = default.clone().unwrap_or_default();
            (name.clone(), Expression::Text(default))
        });
        let object = Expression::Object(fields.collect());
        Some(format!(
            "const {SETTINGS} = values({});\n",
            object.written()
        ))
    }

    /// Those without a default.
    pub(super) fn open(&self) -> Vec<&str> {
        let open = self.met.iter().filter(|(_, default)| default.is_none());
        open.map(|(name, _)| name.as_str()).collect()
    }
}
