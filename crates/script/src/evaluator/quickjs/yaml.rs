// SPDX-License-Identifier: Apache-2.0
//! YAML to values, and values to the tree that [`crate::yaml`] writes. Integers beyond what a
//! number holds exactly are `bigint`s; anchors and merge keys are resolved; keys that aren't
//! scalars, tags and bytes are refused.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_yaml_ng::{Mapping, Number, Value as Yaml};

use crate::value::Value;

/// What a number of JavaScript holds exactly.
const SAFE: i128 = (1 << 53) - 1;

/// One document.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut yaml: Yaml = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
    yaml.apply_merge().map_err(|e| e.to_string())?;
    from_yaml(yaml)
}

/// Where the value under these keys begins, lines and columns from 1; none where there is none, or
/// the text can't be read. JSON is YAML.
pub(super) fn place(text: &str, path: &[String]) -> Option<(usize, usize)> {
    let found = Find(path).deserialize(serde_yaml_ng::Deserializer::from_str(text));
    let problem = found
        .err()
        .filter(|problem| problem.to_string().contains(FOUND))?;
    let at = problem.location()?;
    Some((at.line(), at.column()))
}

/// The error by which a reader says that it has come there: errors have places, values have none.
const FOUND: &str = "this is the place";

/// Reads a value along a path, and fails at its end.
struct Find<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(FOUND)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.0.split_first() else {
            return Err(A::Error::custom(FOUND));
        };
        while let Some(is_it) = map.next_key_seed(Is(first, rest.is_empty()))? {
            match is_it {
                true => map.next_value_seed(Find(rest))?,
                false => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.0.split_first() else {
            return Err(A::Error::custom(FOUND));
        };
        for _ in 0..first.parse().unwrap_or(0) {
            items.next_element::<IgnoredAny>()?;
        }
        items.next_element_seed(Find(rest)).map(drop)
    }
}

/// Whether a key is the one that is looked for; where it is the last one, the place is found.
struct Is<'a>(&'a str, bool);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        match key == self.0 {
            true if self.1 => Err(E::custom(FOUND)),
            is_it => Ok(is_it),
        }
    }
}

/// A document of a value.
pub(super) fn stringify(value: Value) -> Result<String, String> {
    let yaml = into_yaml(value)?.unwrap_or(Yaml::Null);
    Ok(crate::yaml::document(&yaml))
}

fn from_yaml(yaml: Yaml) -> Result<Value, String> {
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(value),
        Yaml::Number(number) => from_number(&number),
        Yaml::String(text) => Value::String(text),
        Yaml::Sequence(items) => {
            Value::Array(items.into_iter().map(from_yaml).collect::<Result<_, _>>()?)
        }
        Yaml::Mapping(fields) => {
            let field = |(name, value)| Ok::<_, String>((key(name)?, from_yaml(value)?));
            Value::Object(fields.into_iter().map(field).collect::<Result<_, _>>()?)
        }
        Yaml::Tagged(tagged) => return Err(format!("the tag {} means nothing here", tagged.tag)),
    })
}

fn from_number(number: &Number) -> Value {
    let whole = number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from));
    match whole {
        Some(whole) if whole.abs() > SAFE => Value::BigInt(whole),
        _ => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn key(key: Yaml) -> Result<String, String> {
    match key {
        Yaml::String(text) => Ok(text),
        Yaml::Number(number) => Ok(number.to_string()),
        Yaml::Bool(value) => Ok(value.to_string()),
        Yaml::Null => Ok("null".to_owned()),
        _ => Err("a key must be a string, a number or a boolean".to_owned()),
    }
}

/// None is what isn't there.
fn into_yaml(value: Value) -> Result<Option<Yaml>, String> {
    Ok(Some(match value {
        Value::Undefined => return Ok(None),
        Value::Null => Yaml::Null,
        Value::Bool(value) => Yaml::Bool(value),
        Value::Number(value) => into_number(value),
        Value::BigInt(value) => match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => Yaml::Number(value.into()),
            (_, Ok(value)) => Yaml::Number(value.into()),
            _ => {
                return Err(format!(
                    "{value} is beyond the 64 bits that YAML's readers take"
                ));
            }
        },
        Value::String(text) => Yaml::String(text),
        Value::Bytes(_) => return Err("bytes have no form in YAML; encode them".to_owned()),
        Value::Unknown(text) => return Err(format!("{text} isn't known in a plan")),
        Value::Array(items) => {
            let item = |item| Ok::<_, String>(into_yaml(item)?.unwrap_or(Yaml::Null));
            Yaml::Sequence(items.into_iter().map(item).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let mut mapping = Mapping::new();
            for (name, field) in fields {
                if let Some(field) = into_yaml(field)? {
                    mapping.insert(Yaml::String(name), field);
                }
            }
            Yaml::Mapping(mapping)
        }
    }))
}

/// Without a fraction where it has none: `80`, not `80.0`.
fn into_number(value: f64) -> Yaml {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "it is compared with what it came from"
    )]
    {
        let whole = value as i64;
        if whole as f64 == value && value.abs() <= SAFE as f64 {
            Yaml::Number(whole.into())
        } else {
            Yaml::Number(value.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_as_it_was() {
        let text = "name: web\nports:\n- 80\n- 1.5\nbig: 9007199254740993\nnone: null\n";
        let value = parse(text).unwrap();
        let Value::Object(fields) = &value else {
            panic!("{value:?}");
        };
        assert_eq!(
            fields[2],
            ("big".into(), Value::BigInt(9_007_199_254_740_993))
        );
        assert_eq!(stringify(value).unwrap(), text);
    }

    #[test]
    fn anchors_are_resolved_and_bombs_refused() {
        let merged = parse("a: &a {x: 1}\nb: {<<: *a, y: 2}").unwrap();
        let Value::Object(fields) = merged else {
            panic!("not an object");
        };
        assert!(matches!(&fields[1].1, Value::Object(both) if both.len() == 2));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let above = format!("*a{}", level - 1);
            let above = vec![above; 9].join(", ");
            bomb += &format!("a{level}: &a{level} [{above}]\n");
        }
        assert!(parse(&bomb).is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse("!secret x").is_err());
    }

    #[test]
    fn a_value_s_place_is_found_in_json_and_yaml() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let json = "{\n  \"a\": 1,\n  \"web\": { \"port\": 80,\n    \"list\": [1, true] }\n}";
        assert_eq!(place(json, &path("web.list")), Some((4, 5)));
        assert_eq!(place(json, &path("web.port")), Some((3, 12)));
        assert_eq!(place(json, &path("web.none")), None);
        let yaml = "a: 1\nweb:\n  port: 80\n  yes: 2\n";
        assert_eq!(place(yaml, &path("web.port")), Some((3, 3)));
        assert_eq!(place(yaml, &path("web.yes")), Some((4, 3)));
    }
}
