// SPDX-License-Identifier: Apache-2.0
//! What the editor is told where both have answered: of findings, those of ours that stand and
//! those that it alone has; of actions, ours and then its own.

use std::collections::HashMap;

use lsp_types::Uri;
use serde_json::{Value, json};

use crate::check::Claim;
use crate::finding::Finding;
use crate::tsc::decide::{Lines, said, stands};

/// Of the protocol: an error.
const ERROR: u64 = 1;
/// Of the protocol: a warning, as which its errors are shown. Only ours keep a program from a node.
const WARNING: u64 = 2;

/// What it found last in each document, as it said it: its actions mend these.
#[derive(Default)]
pub(in crate::lsp) struct Found(HashMap<Uri, Vec<Value>>);

impl Found {
    /// Our findings that stand, and its own as the editor is told them.
    pub(in crate::lsp) fn merge(
        &mut self,
        uri: &Uri,
        claims: Vec<Claim>,
        answer: &Value,
    ) -> (Vec<Finding>, Vec<Value>) {
        let items = answer.get("items").and_then(Value::as_array);
        let items = items.cloned().unwrap_or_default();
        let errors = items.iter().filter(|it| is_error(it));
        let complaints: Lines = errors.filter_map(line).collect();
        let mut claims = claims;
        claims.retain(|claim| stands(claim, &complaints));
        let told = claims.first().map(|claim| claim.finding.source.clone());
        let told = told.map_or_else(Lines::new, |source| said(&source, &claims));
        let alone = items
            .iter()
            .filter(|it| !is_error(it) || line(it).is_some_and(|line| !told.contains(&line)))
            .map(shown)
            .collect();
        self.0.insert(uri.clone(), items);
        (claims.into_iter().map(|it| it.finding).collect(), alone)
    }

    pub(in crate::lsp) fn forget(&mut self, uri: &Uri) {
        self.0.remove(uri);
    }

    /// A question for actions, with what it found itself in that place.
    pub(in crate::lsp) fn in_place(&self, mut params: Value) -> Value {
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str);
        let uri = uri.and_then(|uri| uri.parse::<Uri>().ok());
        let found = uri.and_then(|uri| self.0.get(&uri)).into_iter().flatten();
        let lines = |value: &Value| {
            let line = |end: &str| value.pointer(&format!("/range/{end}/line"));
            Some((line("start")?.as_u64()?, line("end")?.as_u64()?))
        };
        let wanted = lines(&params).unwrap_or_default();
        let near = found
            .filter(|it| lines(it).is_some_and(|(from, to)| from <= wanted.1 && wanted.0 <= to));
        let near: Vec<Value> = near.cloned().collect();
        if let Some(context) = params.get_mut("context").and_then(Value::as_object_mut) {
            context.insert("diagnostics".to_owned(), near.into());
        }
        params
    }
}

/// From 1.
fn line(item: &Value) -> Option<u32> {
    let line = item.pointer("/range/start/line")?.as_u64()?;
    u32::try_from(line).ok()?.checked_add(1)
}

fn is_error(item: &Value) -> bool {
    item.get("severity").and_then(Value::as_u64) == Some(ERROR)
}

/// With its code's name, an error as a warning.
fn shown(item: &Value) -> Value {
    let mut shown = item.clone();
    if let Some(fields) = shown.as_object_mut() {
        if is_error(item) {
            fields.insert("severity".to_owned(), WARNING.into());
        }
        if let Some(code) = item.get("code").and_then(Value::as_i64) {
            fields.insert("code".to_owned(), format!("TS{code}").into());
        }
        fields.insert("source".to_owned(), json!("typescript"));
    }
    shown
}

/// Its answer to a question, or none where ours is to be given: it has nothing to say.
pub(in crate::lsp) fn usable(answer: Option<Value>) -> Option<Value> {
    answer.filter(|answer| match answer {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => {
            let items = fields.get("items").and_then(Value::as_array);
            items.is_none_or(|items| !items.is_empty())
        }
        _ => true,
    })
}

/// Our actions, then its own.
pub(in crate::lsp) fn actions(ours: Value, its: Value) -> Value {
    let mut all = Vec::new();
    for list in [ours, its] {
        if let Value::Array(list) = list {
            all.extend(list);
        }
    }
    all.into()
}
