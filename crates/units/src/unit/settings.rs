// SPDX-License-Identifier: Apache-2.0
//! What a unit says, by the names under which the table keeps values, and where it was said.

use std::collections::BTreeMap;

use crate::exec::Command;
use crate::finding::Position;
use crate::name::UnitName;
use crate::time::Span;
use crate::value::{Clock, Condition, Limit, Listen, MarkedPath, Value};

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The file.
    pub path: String,
    /// Where in it.
    pub at: Position,
    /// The directive.
    pub directive: &'static str,
}

/// A value and where it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// The lines that made it up, in order.
    pub origins: Vec<Origin>,
    /// The higher, the later it was set.
    turn: u64,
}

/// All of one unit. What isn't there has its default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, Setting>,
    turn: u64,
}

macro_rules! getter {
    ($(#[$doc:meta])* $name:ident, $variant:ident, $type:ty) => {
        $(#[$doc])*
        pub fn $name(&self, field: &str) -> Option<$type> {
            match self.get(field) {
                Some(Value::$variant(value)) => Some(*value),
                _ => None,
            }
        }
    };
}

macro_rules! list {
    ($(#[$doc:meta])* $name:ident, $variant:ident, $type:ty) => {
        $(#[$doc])*
        pub fn $name(&self, field: &str) -> &[$type] {
            match self.get(field) {
                Some(Value::$variant(values)) => values,
                _ => &[],
            }
        }
    };
}

impl Settings {
    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.values.get(field).map(|it| &it.value)
    }

    /// The value and where it was given.
    pub fn setting(&self, field: &str) -> Option<&Setting> {
        self.values.get(field)
    }

    /// Every field that is set, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.values.iter().map(|(field, setting)| (*field, setting))
    }

    pub(super) fn set(&mut self, field: &'static str, value: Value, origin: Origin) {
        self.turn += 1;
        let mut origins = match self.values.remove(field) {
            Some(old) => old.origins,
            None => Vec::new(),
        };
        origins.push(origin);
        let turn = self.turn;
        let setting = Setting {
            value,
            origins,
            turn,
        };
        self.values.insert(field, setting);
    }

    /// The span of whichever of these fields was set last.
    pub fn last_span(&self, fields: &[&str]) -> Option<Span> {
        let set = fields.iter().filter_map(|field| self.setting(field));
        match set.max_by_key(|it| it.turn)?.value {
            Value::Span(span) => Some(span),
            _ => None,
        }
    }

    pub(super) fn reset(&mut self, field: &'static str) {
        self.values.remove(field);
    }

    getter!(
        /// A boolean; `None` where it isn't set, or is a word.
        flag, Flag, bool
    );
    getter!(
        /// A word of those that the directive takes.
        word, Word, &'static str
    );
    getter!(
        /// A number.
        number, Number, i64
    );
    getter!(
        /// A span of time.
        span, Span, Span
    );
    getter!(
        /// A bound.
        limit, Limit, Limit
    );
    list!(
        /// Names of units.
        units, Units, UnitName
    );
    list!(
        /// Command lines.
        commands, Commands, Command
    );
    list!(
        /// Words, in the order of the file.
        texts, Texts, String
    );
    list!(
        /// Paths with their marks.
        paths, Paths, MarkedPath
    );
    list!(
        /// Conditions or assertions.
        conditions, Conditions, Condition
    );
    list!(
        /// A timer's clocks.
        clocks, Clocks, Clock
    );
    list!(
        /// What a socket unit listens on.
        listens, Listens, Listen
    );

    /// A text.
    pub fn text(&self, field: &str) -> Option<&str> {
        match self.get(field) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// The `[Install]` section. Specifiers are put in when a unit is enabled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Install {
    /// `Alias=`.
    pub alias: Vec<String>,
    /// `WantedBy=`.
    pub wanted_by: Vec<String>,
    /// Whose `.upholds` folders get a link.
    pub upheld_by: Vec<String>,
    /// `RequiredBy=`.
    pub required_by: Vec<String>,
    /// `Also=`.
    pub also: Vec<String>,
    /// `DefaultInstance=`.
    pub default_instance: Option<String>,
}

impl Install {
    pub(super) fn of(settings: &Settings) -> Install {
        Install {
            alias: settings.texts("Alias").to_vec(),
            wanted_by: settings.texts("WantedBy").to_vec(),
            upheld_by: settings.texts("UpheldBy").to_vec(),
            required_by: settings.texts("RequiredBy").to_vec(),
            also: settings.texts("Also").to_vec(),
            default_instance: settings.text("DefaultInstance").map(str::to_owned),
        }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.only_also() && self.also.is_empty()
    }

    /// Whether it makes no link by itself.
    pub fn only_also(&self) -> bool {
        self.alias.is_empty()
            && self.wanted_by.is_empty()
            && self.required_by.is_empty()
            && self.upheld_by.is_empty()
    }
}
