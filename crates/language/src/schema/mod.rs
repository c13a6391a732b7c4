// SPDX-License-Identifier: Apache-2.0
//! The API as a program of the language sees it: subsystems, their methods, the messages and enums
//! that those take and give, under the language's names and with the comments of the protos.
//!
//! Made from descriptors alone, so that a new RPC or field is here without a line of Rust. It says
//! nothing of how things are spelled in TypeScript (`declare`) or of values (`script::wire`, which
//! uses `name` and `kind` too). Used by the declarations, the reference, the bindings, the plan.

mod build;
mod declares;
mod kind;
pub mod name;
mod nearest;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use prost_reflect::{DescriptorError, DescriptorPool};

pub use declares::Declares;
pub use kind::{Kind, MapKey};
pub use nearest::nearest;

/// Globals that the language will have, some of them when the API has them. Asking for one that
/// isn't there ([`Schema::offers`]) is answered by name.
pub const PROMISED: [&str; 15] = [
    "runtime",
    "schedule",
    "secrets",
    "identity",
    "observe",
    "route",
    "batch",
    "mount",
    "node",
    "Executable",
    "Cell",
    "Container",
    "VirtualMachine",
    "Instance",
    "Pod",
];

/// Why there is no schema.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The descriptors that are built in are broken, which a test excludes.
    #[error("the built-in descriptors of the API can't be read")]
    Descriptors(#[source] prost_reflect::DescriptorError),
}

/// The whole API, in the descriptors' order.
#[derive(Debug)]
pub struct Schema {
    /// One per service.
    pub subsystems: Vec<Subsystem>,
    messages: BTreeMap<String, Message>,
    enums: BTreeMap<String, Enum>,
}

/// A global object of the language: `runtime`.
#[derive(Debug)]
pub struct Subsystem {
    /// `runtime`; its action as well.
    pub name: String,
    /// `aurae.runtime.v0.Runtime`.
    pub service: String,
    /// The service's comment.
    pub docs: String,
    /// In the proto's order.
    pub methods: Vec<Method>,
    /// Full names of the messages of its package, maps' entries left out, in the protos' order.
    pub messages: Vec<String>,
    /// Full names of the enums of its package.
    pub enums: Vec<String>,
}

/// An RPC.
#[derive(Debug)]
pub struct Method {
    /// `RunCell`.
    pub name: String,
    /// `runtime.RunCell`: what policies, the audit and `.action` call it.
    pub action: String,
    /// `/aurae.runtime.v0.Runtime/RunCell`.
    pub path: String,
    /// Full name of the request's message.
    pub request: String,
    /// Full name of the answer's message.
    pub response: String,
    /// Requests are a stream.
    pub client_streams: bool,
    /// Answers are a stream.
    pub server_streams: bool,
    /// It may change something: everything that isn't marked `NO_SIDE_EFFECTS`. A plan records it.
    pub mutating: bool,
    /// The object that a call makes, where it makes one that a set can hold.
    pub declares: Option<Declares>,
    /// The comment.
    pub docs: String,
}

/// A message: a plain object in the language.
#[derive(Debug)]
pub struct Message {
    /// `aurae.runtime.v0.Seccomp`.
    pub full_name: String,
    /// The subsystem whose types it is among.
    pub subsystem: String,
    /// `Seccomp`; nested ones joined: `OuterInner`.
    pub name: String,
    /// The comment.
    pub docs: String,
    /// In the proto's order.
    pub fields: Vec<Field>,
    /// Names of its oneofs (not those that `optional` makes); `Field::oneof` points here.
    pub oneofs: Vec<String>,
    /// A program sends it: it is in some request.
    pub sent: bool,
    /// A program receives it: it is in some answer.
    pub received: bool,
}

/// A field of a message: a property.
#[derive(Debug)]
pub struct Field {
    /// `oomScoreAdj`.
    pub name: String,
    /// `oom_score_adj`, as in field masks.
    pub proto_name: String,
    /// On the wire.
    pub number: u32,
    /// The comment.
    pub docs: String,
    /// Of one value; of the values of a list or a map.
    pub kind: Kind,
    /// How many.
    pub cardinality: Cardinality,
    /// Whether it may be absent from what a node answers.
    pub presence: Presence,
    /// A request without it is refused.
    pub required: bool,
    /// Which of the message's oneofs it belongs to.
    pub oneof: Option<usize>,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// One value.
    Single,
    /// An array.
    List,
    /// A plain object with keys of that kind.
    Map(MapKey),
}

/// What absence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always there in an answer: zero, empty or false where nothing was set.
    Implicit,
    /// Absent where it wasn't set: `optional`, messages, members of oneofs.
    Explicit,
}

/// An enum: a union of strings.
#[derive(Debug)]
pub struct Enum {
    /// `aurae.runtime.v0.Seccomp.Profile`.
    pub full_name: String,
    /// The subsystem whose types it is among.
    pub subsystem: String,
    /// `SeccompProfile`.
    pub name: String,
    /// The comment.
    pub docs: String,
    /// In the proto's order.
    pub values: Vec<EnumValue>,
}

/// A value of an enum.
#[derive(Debug)]
pub struct EnumValue {
    /// `running`.
    pub name: String,
    /// `STATE_RUNNING`.
    pub proto_name: String,
    /// On the wire.
    pub number: i32,
    /// The comment.
    pub docs: String,
}

static API: LazyLock<Result<Schema, SchemaError>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(api::DOCUMENTED_DESCRIPTORS);
    Ok(Schema::new(&pool.map_err(SchemaError::Descriptors)?))
});

static BARE: LazyLock<Result<Schema, &'static DescriptorError>> =
    LazyLock::new(|| api::descriptor_pool().map(Schema::new));

impl Schema {
    /// The API that this binary was built with, with its comments. Made at the first call.
    ///
    /// # Errors
    /// Only where the built-in descriptors are broken.
    pub fn of_api() -> Result<&'static Self, &'static SchemaError> {
        API.as_ref()
    }

    /// The same without comments, for callers that run programs and don't show what the API says of
    /// itself: reading the comments takes longer than all else that a short program does.
    ///
    /// # Errors
    /// Only where the built-in descriptors are broken.
    pub fn bare() -> Result<&'static Self, &'static DescriptorError> {
        BARE.as_ref().map_err(|problem| *problem)
    }

    /// Of any descriptors whose packages look like `aurae.SUBSYSTEM.v0`. Comments are there where
    /// the pool has source information.
    pub fn new(pool: &DescriptorPool) -> Self {
        build::schema(pool)
    }

    /// By `runtime`.
    pub fn subsystem(&self, name: &str) -> Option<&Subsystem> {
        self.subsystems.iter().find(|found| found.name == name)
    }

    /// Whether this API has the subsystem or the workload of that name.
    pub fn offers(&self, name: &str) -> bool {
        let mut workloads = self
            .messages
            .values()
            .filter(|message| message.is_workload());
        self.subsystem(name).is_some() || workloads.any(|message| message.name == name)
    }

    /// By action: `runtime.RunCell`.
    pub fn method(&self, action: &str) -> Option<&Method> {
        let (subsystem, name) = action.split_once('.')?;
        let methods = &self.subsystem(subsystem)?.methods;
        methods.iter().find(|method| method.name == name)
    }

    /// By full name: `aurae.runtime.v0.CellSpec`.
    pub fn message(&self, full_name: &str) -> Option<&Message> {
        self.messages.get(full_name)
    }

    /// By full name.
    pub fn enumeration(&self, full_name: &str) -> Option<&Enum> {
        self.enums.get(full_name)
    }

    /// What is said of a field; where nothing is, what is said of its type.
    pub fn field_docs<'a>(&'a self, field: &'a Field) -> &'a str {
        if !field.docs.is_empty() {
            return &field.docs;
        }
        match &field.kind {
            Kind::Message(name) => self.message(name).map_or("", |found| &found.docs),
            Kind::Enum(name) => self.enumeration(name).map_or("", |found| &found.docs),
            _ => "",
        }
    }

    /// By the language's name: `runtime.CellSpec`.
    pub fn message_named(&self, name: &str) -> Option<&Message> {
        let (subsystem, name) = name.split_once('.')?;
        let mut messages = self.messages.values();
        messages.find(|found| found.subsystem == subsystem && found.name == name)
    }
}

impl Message {
    /// By the language's name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The message as types are written: `runtime.CellSpec`.
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.subsystem, self.name)
    }

    /// It is exactly `ref`, `labels` and `spec`: a workload, which has a class of its name.
    pub fn is_workload(&self) -> bool {
        let names: Vec<_> = self
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        names == ["ref", "labels", "spec"]
    }

    /// Answers have it in another shape than requests take it (fields always there, 64-bit integers
    /// as `bigint`), so it needs two types.
    pub fn two_shapes(&self) -> bool {
        self.sent && self.received && !self.fields.is_empty()
    }
}

#[cfg(test)]
mod tests;
