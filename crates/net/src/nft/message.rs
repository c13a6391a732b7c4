// SPDX-License-Identifier: Apache-2.0
//! The messages of nf_tables, and the batch that makes them one transaction: all or nothing, and no
//! packet sees half of it.

use super::attributes::{Attributes, first, read};
use super::expression::{self, Expression, Name, Verdict};
use crate::conversation::{Answer, Conversation, acknowledged};
use crate::{Error, Result};

/// The families of tables that are used here (`NFPROTO_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Family {
    Inet = 1,
    Bridge = 7,
}

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
const DELETE_CHAIN: u16 = 5;
const NEW_RULE: u16 = 6;
const NEW_SET: u16 = 9;
const DELETE_SET: u16 = 11;
const NEW_ELEMENTS: u16 = 12;
const GET_ELEMENTS: u16 = 13;
const DELETE_ELEMENTS: u16 = 14;

/// A list of elements is one attribute, which has 64 KiB at most; an element has less than 128.
const ELEMENTS_PER_MESSAGE: usize = 400;

/// One message, with what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    what: String,
    kind: u16,
    flags: u16,
    family: Family,
    body: Vec<u8>,
}

/// Where a chain that the kernel calls is hooked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hook {
    /// `filter` or `nat`.
    pub(crate) kind: &'static str,
    /// `NF_INET_*`; those of bridges have the same numbers.
    pub(crate) number: u32,
    pub(crate) priority: i32,
    /// Whether what no rule decides is dropped.
    pub(crate) drop: bool,
}

/// The kind of a key's part, by its number in nft's library: `nft list` shows values by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Ipv4 = 7,
    Ipv6 = 8,
    Ether = 9,
    Protocol = 12,
    Port = 13,
    Interface = 41,
}

impl Type {
    /// Bytes, padded to whole words.
    fn length(self) -> u32 {
        match self {
            Type::Ipv4 | Type::Protocol | Type::Port => 4,
            Type::Ether => 8,
            Type::Ipv6 | Type::Interface => 16,
        }
    }

    /// The bytes of a value where it is the whole key.
    fn bare(self) -> u32 {
        match self {
            Type::Protocol => 1,
            Type::Port => 2,
            Type::Ether => 6,
            other => other.length(),
        }
    }
}

/// What a set has for its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Values {
    None,
    /// A map.
    Of(&'static [Type]),
    /// A map of what to do.
    Verdicts,
}

/// A set, or a map where it has values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Set {
    pub(crate) name: Name,
    pub(crate) key: &'static [Type],
    pub(crate) value: Values,
}

/// nft's number of a concatenation: 6 bits for each part.
fn concatenated(types: &[Type]) -> u32 {
    types.iter().fold(0, |sum, kind| sum << 6 | *kind as u32)
}

fn length(types: &[Type]) -> u32 {
    match types {
        [one] => one.bare(),
        several => several.iter().map(|kind| kind.length()).sum(),
    }
}

impl Message {
    fn new(what: String, kind: u16, flags: u16, family: Family, body: Attributes) -> Self {
        Self {
            what,
            kind,
            flags,
            family,
            body: body.into_bytes(),
        }
    }

    pub(crate) fn new_table(family: Family, table: &str) -> Self {
        let body = Attributes::default().text(1, table).number(2, 0);
        let what = format!("making the {family:?} table {table}");
        Self::new(what, NEW_TABLE, NLM_F_CREATE, family, body)
    }

    pub(crate) fn delete_table(family: Family, table: &str) -> Self {
        let body = Attributes::default().text(1, table);
        let what = format!("removing the {family:?} table {table}");
        Self::new(what, DELETE_TABLE, 0, family, body)
    }

    /// A chain; without a hook others jump to it.
    pub(crate) fn new_chain(family: Family, table: &str, name: &str, hook: Option<Hook>) -> Self {
        let mut body = Attributes::default().text(1, table).text(3, name);
        if let Some(hook) = hook {
            let place = Attributes::default()
                .number(1, hook.number)
                .number(2, hook.priority.cast_unsigned());
            let policy = u32::from(!hook.drop);
            body = body.nest(4, place).number(5, policy).text(7, hook.kind);
        }
        let what = format!("making the chain {name}");
        Self::new(what, NEW_CHAIN, NLM_F_CREATE, family, body)
    }

    pub(crate) fn new_set(family: Family, table: &str, set: &Set, id: u32) -> Self {
        const MAP: u32 = 8;
        const VERDICT: u32 = 0xffff_ff00;
        let flags = if set.value == Values::None { 0 } else { MAP };
        let mut body = Attributes::default()
            .text(1, table)
            .text(2, &set.name)
            .number(3, flags)
            .number(4, concatenated(set.key))
            .number(5, length(set.key));
        body = match set.value {
            Values::None => body,
            Values::Of(types) => body.number(6, concatenated(types)).number(7, length(types)),
            Values::Verdicts => body.number(6, VERDICT),
        };
        body = body.number(10, id);
        let what = format!("making the set {}", set.name);
        Self::new(what, NEW_SET, NLM_F_CREATE, family, body)
    }

    /// Removes a chain with its rules; nothing may jump to it.
    pub(crate) fn delete_chain(family: Family, table: &str, name: &str) -> Self {
        let body = Attributes::default().text(1, table).text(3, name);
        let what = format!("removing the chain {name}");
        Self::new(what, DELETE_CHAIN, 0, family, body)
    }

    /// Removes a set; no rule may name it.
    pub(crate) fn delete_set(family: Family, table: &str, name: &str) -> Self {
        let body = Attributes::default().text(1, table).text(2, name);
        Self::new(
            format!("removing the set {name}"),
            DELETE_SET,
            0,
            family,
            body,
        )
    }

    pub(crate) fn new_rule(family: Family, table: &str, chain: &str, rule: &[Expression]) -> Self {
        let body = Attributes::default()
            .text(1, table)
            .text(2, chain)
            .nest_all(4, 1, rule.iter().map(Expression::encode));
        let what = format!("adding a rule to {chain}: {rule:?}");
        let flags = NLM_F_CREATE | NLM_F_APPEND;
        Self::new(what, NEW_RULE, flags, family, body)
    }

    /// Adds elements to a set, or removes them; as many messages as it takes.
    pub(crate) fn elements(
        family: Family,
        table: &str,
        set: &str,
        elements: &[Element],
        add: bool,
    ) -> Vec<Self> {
        let (kind, flags, verb) = if add {
            (NEW_ELEMENTS, NLM_F_CREATE | NLM_F_EXCL, "adding to")
        } else {
            (DELETE_ELEMENTS, 0, "removing from")
        };
        elements
            .chunks(ELEMENTS_PER_MESSAGE)
            .map(|some| {
                let list = some.iter().map(|element| element.encode(add));
                let body = Attributes::default()
                    .text(1, table)
                    .text(2, set)
                    .nest_all(3, 1, list);
                Self::new(format!("{verb} the set {set}"), kind, flags, family, body)
            })
            .collect()
    }

    fn encode(&self, sequence: u32, flags: u16, into: &mut Vec<u8>) {
        let flags = self.flags | NLM_F_REQUEST | flags;
        let kind = SUBSYSTEM << 8 | self.kind;
        header(
            into,
            kind,
            flags,
            sequence,
            self.family as u8,
            0,
            &self.body,
        );
    }
}

/// An element of a set; with a value, of a map.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Element {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Value>,
}

/// What a map has for a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Value {
    Bytes(Vec<u8>),
    /// To this chain.
    Jump(Name),
}

impl Element {
    fn encode(&self, with_value: bool) -> Attributes {
        let data = |bytes: &[u8]| Attributes::default().bytes(1, bytes);
        let mut element = Attributes::default().nest(1, data(&self.key));
        if let Some(value) = self.value.as_ref().filter(|_| with_value) {
            let data = match value {
                Value::Bytes(bytes) => data(bytes),
                Value::Jump(chain) => expression::verdict(&Verdict::Jump(chain.clone())),
            };
            element = element.nest(2, data);
        }
        element
    }
}

/// `nlmsghdr` and `nfgenmsg` before the attributes.
fn header(
    into: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    sequence: u32,
    family: u8,
    resource: u16,
    body: &[u8],
) {
    let length = u32::try_from(20 + body.len()).unwrap_or(u32::MAX);
    into.extend(length.to_ne_bytes());
    into.extend(kind.to_ne_bytes());
    into.extend(flags.to_ne_bytes());
    into.extend(sequence.to_ne_bytes());
    into.extend(0u32.to_ne_bytes());
    into.extend([family, 0]);
    into.extend(resource.to_be_bytes());
    into.extend(body);
}

/// Carries messages out as one transaction.
///
/// # Errors
/// The first message that the kernel refused; nothing was changed then.
pub(crate) fn commit(netfilter: &mut Conversation, messages: &[Message]) -> Result<()> {
    let Some((last, before)) = messages.split_last() else {
        return Ok(());
    };
    let (mut bytes, mut sent) = (Vec::new(), Vec::new());
    let begin = netfilter.next_sequence();
    header(
        &mut bytes,
        BATCH_BEGIN,
        NLM_F_REQUEST,
        begin,
        0,
        SUBSYSTEM,
        &[],
    );
    for message in before {
        sent.push((netfilter.next_sequence(), &message.what));
        message.encode(sent.last().map_or(0, |s| s.0), 0, &mut bytes);
    }
    // One acknowledgement is enough: a batch is carried out as a whole.
    let acknowledged_by = netfilter.next_sequence();
    sent.push((acknowledged_by, &last.what));
    last.encode(acknowledged_by, NLM_F_ACK, &mut bytes);
    let end = netfilter.next_sequence();
    header(&mut bytes, BATCH_END, NLM_F_REQUEST, end, 0, SUBSYSTEM, &[]);
    judge(&netfilter.exchange(&bytes)?, &sent, acknowledged_by)
}

/// Whether a batch was carried out.
fn judge(answers: &[Answer], sent: &[(u32, &String)], last: u32) -> Result<()> {
    let name = |sequence: u32| {
        let found = sent.iter().find(|(number, _)| *number == sequence);
        found.map_or("the batch of rules", |(_, what)| what.as_str())
    };
    let refused = |answer: &&Answer| answer.errno.is_some_and(|errno| errno != 0);
    if let Some(answer) = answers.iter().find(refused) {
        return acknowledged(name(answer.sequence), answer);
    }
    if answers.iter().any(|answer| answer.sequence == last) {
        return Ok(());
    }
    Err(Error::Answer {
        step: name(last).to_owned(),
        reason: "there is no acknowledgement".to_owned(),
    })
}

/// The policy of a chain: `Some(true)` where it drops, none where there is no such chain.
pub(crate) fn chain_drops(
    netfilter: &mut Conversation,
    table: &str,
    chain: &str,
) -> Result<Option<bool>> {
    const NOT_THERE: i32 = 2;
    let body = Attributes::default().text(1, table).text(3, chain);
    let sequence = netfilter.next_sequence();
    let mut bytes = Vec::new();
    let kind = SUBSYSTEM << 8 | GET_CHAIN;
    let family = Family::Inet as u8;
    header(
        &mut bytes,
        kind,
        NLM_F_REQUEST,
        sequence,
        family,
        0,
        &body.into_bytes(),
    );
    for answer in netfilter.exchange(&bytes)? {
        if answer.errno == Some(NOT_THERE) {
            return Ok(None);
        }
        acknowledged("looking at the chain", &answer)?;
        let policy = answer.bytes.get(20..).and_then(|body| first(body, 5));
        if let Some(policy) = policy {
            return Ok(Some(policy == [0, 0, 0, 0]));
        }
    }
    Ok(None)
}

/// The keys that a set has in the kernel.
pub(crate) fn elements_of(
    netfilter: &mut Conversation,
    family: Family,
    table: &str,
    set: &str,
) -> Result<Vec<Vec<u8>>> {
    const NLM_F_DUMP: u16 = 0x300;
    let body = Attributes::default()
        .text(1, table)
        .text(2, set)
        .into_bytes();
    let mut bytes = Vec::new();
    let (kind, flags) = (SUBSYSTEM << 8 | GET_ELEMENTS, NLM_F_REQUEST | NLM_F_DUMP);
    let sequence = netfilter.next_sequence();
    header(&mut bytes, kind, flags, sequence, family as u8, 0, &body);
    let answers = netfilter.dump_raw(&format!("listing the set {set}"), &bytes)?;
    let mut elements = Vec::new();
    for answer in answers.iter().filter(|a| a.kind >> 8 == SUBSYSTEM) {
        let list = answer.bytes.get(20..).and_then(|body| first(body, 3));
        for (_, element) in read(list.unwrap_or_default()) {
            let key = first(element, 1).and_then(|data| first(data, 1));
            elements.extend(key.map(<[u8]>::to_vec));
        }
    }
    Ok(elements)
}
