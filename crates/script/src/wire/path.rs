// SPDX-License-Identifier: Apache-2.0
//! Where in a request one is: `executable.spec.env["my key"]`. Lives on the stack; text is made
//! only for errors.

use std::fmt;

/// A place, by the place that it is in.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The whole.
    Root,
    /// A field of a message.
    Field(&'a Path<'a>, &'a str),
    /// An element of a list.
    Index(&'a Path<'a>, usize),
    /// A value of a map.
    Key(&'a Path<'a>, &'a str),
}

impl Path<'_> {
    /// How many steps it is from the whole.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Field(above, _) | Self::Index(above, _) | Self::Key(above, _) => {
                above.depth() + 1
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => write!(f, "{name}"),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Index(above, index) => write!(f, "{above}[{index}]"),
            Self::Key(above, key) if is_identifier(key) => write!(f, "{above}.{key}"),
            Self::Key(above, key) => write!(f, "{above}[{key:?}]"),
        }
    }
}

fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
