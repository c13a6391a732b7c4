// SPDX-License-Identifier: Apache-2.0
//! Places in a file of data: where a declaration begins, and where the file can't be read. A place
//! is told by the line and column of a reader's error, since values that were read have none. JSON
//! is read as YAML, but for its errors.

use std::fmt;

use language::source::Position;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_yaml_ng::Value;

use super::data::Form;

/// Where a declaration begins, counted from 0 over all documents and their lists.
pub(super) fn place(text: &str, mut item: usize) -> Option<Position> {
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        if let Err(problem) = Items(&mut item).deserialize(document) {
            return located(&problem);
        }
    }
    None
}

/// The number of the first declaration with that name, from 0.
pub(super) fn named(text: &str, name: &str) -> Option<usize> {
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let documents = documents.map_while(Result::ok).filter(|it| !it.is_null());
    let mut items = documents.flat_map(|document| match document {
        Value::Sequence(items) => items,
        one => vec![one],
    });
    items.position(|item| item.get("name").and_then(Value::as_str) == Some(name))
}

/// Where the file is neither JSON nor YAML.
pub(super) fn broken(text: &str, form: Form) -> Option<Position> {
    match form {
        Form::Json => {
            let problem = serde_json::from_str::<IgnoredAny>(text).err()?;
            position(problem.line(), problem.column())
        }
        Form::Yaml => {
            let mut documents = serde_yaml_ng::Deserializer::from_str(text);
            let problem = documents.find_map(|document| IgnoredAny::deserialize(document).err());
            located(&problem?)
        }
    }
}

/// The place of an error.
pub(super) fn located(problem: &serde_yaml_ng::Error) -> Option<Position> {
    let at = problem.location()?;
    position(at.line(), at.column())
}

fn position(line: usize, column: usize) -> Option<Position> {
    Some(Position {
        line: line.try_into().ok()?,
        column: column.try_into().ok()?,
    })
}

/// What the reader fails with where the declaration begins.
const FOUND: &str = "this is the declaration";

/// A document: a declaration or a list of them. The number is how many are still passed over.
struct Items<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("declarations")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Item(self.0).visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Item(self.0))?.is_some() {}
        Ok(())
    }

    /// An empty document declares nothing.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A declaration. What is no object is the first that is refused: there the reader fails anyway.
struct Item<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Item<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a declaration")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if *self.0 == 0 {
            return Err(A::Error::custom(FOUND));
        }
        *self.0 -= 1;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Option<Position> {
        Some(Position { line, column })
    }

    #[test]
    fn a_declaration_s_place_is_found_in_json_and_in_documents_of_yaml() {
        let json = r#"[{ "name": "a" }, { "name": "b" }]"#;
        assert_eq!(place(json, 0), at(1, 2));
        assert_eq!(place(json, 1), at(1, 19));
        assert_eq!(place(json, 2), None);
        assert_eq!(named(json, "b"), Some(1));
        let yaml = "---\nname: a\nargv: [x]\n---\n# nothing\n---\n- name: b\n- name: c\n";
        assert_eq!(place(yaml, 0), at(2, 1));
        assert_eq!(place(yaml, 2), at(8, 3));
        assert_eq!(named(yaml, "c"), Some(2));
        assert_eq!(named(yaml, "d"), None);
        // The first that is no object is the one that is told.
        assert_eq!(place("- 3\n- name: a\n", 0), at(1, 3));
    }

    #[test]
    fn a_file_that_cant_be_read_says_where() {
        assert_eq!(broken("[]", Form::Json), None);
        assert!(broken("[1,\n  }", Form::Json).is_some_and(|it| it.line == 2));
        assert_eq!(broken("a: 1\n---\nb: 2\n", Form::Yaml), None);
        assert!(broken("a: 1\n---\nb: [\n", Form::Yaml).is_some_and(|it| it.line > 2));
    }
}
