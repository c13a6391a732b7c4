// SPDX-License-Identifier: Apache-2.0
//! What a method's call declares, as the contract says it by `option (aurae.declares)`. The plan
//! and the apply read it; nothing in the client lists methods by name.

use prost_reflect::{DynamicMessage, FieldDescriptor, MethodDescriptor, Value};

/// The option's full name.
const OPTION: &str = "aurae.declares";
/// The same of a field that has to be there.
const REQUIRED: &str = "aurae.required";

/// One object that a call makes, and how the node is asked about it. See
/// `proto/aurae/declares.proto`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declares {
    /// `cell`, `user`, `grant`.
    pub kind: String,
    /// Paths of the request's fields that name the object.
    pub key: Vec<String>,
    /// The method that answers what there is; empty: the workloads' own.
    pub found_by: String,
    /// Where in that answer the objects are.
    pub among: String,
    /// Values that the object has in fields which the request lacks: field, and value as in JSON.
    pub having: Vec<(String, String)>,
    /// Fields that are compared.
    pub compared: Vec<String>,
    /// Another call changes the object.
    pub replaces: bool,
    /// The method that takes the object away; empty: none does.
    pub removed_by: String,
    /// Key fields that the node fills in, each with the field that it takes the value from.
    pub default: Vec<(String, String)>,
    /// The object's boolean field that says it can't be changed; empty: none does.
    pub fixed: String,
}

impl Declares {
    /// The request's field that is the workload; none where the object isn't one.
    pub fn workload(&self) -> Option<&str> {
        self.key.first()?.strip_suffix(".ref")
    }
}

/// What the method's option says; none where it has none.
pub(super) fn of(method: &MethodDescriptor) -> Option<Declares> {
    let option = method.parent_pool().get_extension_by_name(OPTION)?;
    let options = method.options();
    if !options.has_extension(&option) {
        return None;
    }
    let value = options.get_extension(&option);
    let said = value.as_message()?;
    Some(Declares {
        kind: text(said, "kind"),
        key: texts(said, "key"),
        found_by: text(said, "found_by"),
        among: text(said, "among"),
        having: pairs(said, "having", "value"),
        compared: texts(said, "compared"),
        replaces: said
            .get_field_by_name("replaces")
            .is_some_and(|value| value.as_bool() == Some(true)),
        removed_by: text(said, "removed_by"),
        default: pairs(said, "default", "from"),
        fixed: text(said, "fixed"),
    })
}

/// Whether the contract says that a request without the field is refused.
pub(super) fn is_required(field: &FieldDescriptor) -> bool {
    let option = field.parent_pool().get_extension_by_name(REQUIRED);
    option.is_some_and(|option| {
        let options = field.options();
        options.has_extension(&option) && options.get_extension(&option).as_bool() == Some(true)
    })
}

fn text(message: &DynamicMessage, name: &str) -> String {
    let value = message.get_field_by_name(name);
    let value = value.as_ref().and_then(|value| value.as_str());
    value.unwrap_or_default().to_owned()
}

fn list(message: &DynamicMessage, name: &str) -> Vec<Value> {
    let value = message.get_field_by_name(name);
    let value = value.as_ref().and_then(|value| value.as_list());
    value.unwrap_or_default().to_vec()
}

fn texts(message: &DynamicMessage, name: &str) -> Vec<String> {
    let all = list(message, name).into_iter();
    all.filter_map(|one| one.as_str().map(str::to_owned))
        .collect()
}

fn pairs(message: &DynamicMessage, name: &str, second: &str) -> Vec<(String, String)> {
    let all = list(message, name).into_iter();
    all.filter_map(|one| {
        let pair = one.as_message()?;
        Some((text(pair, "field"), text(pair, second)))
    })
    .collect()
}
