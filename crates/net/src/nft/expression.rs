// SPDX-License-Identifier: Apache-2.0
//! The expressions of nf_tables that our rules are made of (`linux/netfilter/nf_tables.h`): a rule
//! is a list of them, and each that doesn't hold ends the rule.
//!
//! Registers are counted in words of 4 bytes, so several values in a row are the key of a set.

use std::borrow::Cow;

use super::attributes::Attributes;

/// The name of a chain or a set: one of ours, or one that a tenant's name is in.
pub(crate) type Name = Cow<'static, str>;

/// A register: the n-th of 16 words. The kernel calls it `NFT_REG32_00 + n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(pub(crate) u32);

impl Word {
    fn number(self) -> u32 {
        const NFT_REG32_00: u32 = 8;
        NFT_REG32_00 + self.0
    }
}

/// What `meta` loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meta {
    Protocol = 1,
    Mark = 3,
    InName = 6,
    OutName = 7,
    Family = 15,
    Transport = 16,
    InGroup = 21,
    OutGroup = 22,
}

/// Which header `payload` counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Header {
    Link = 0,
    Network = 1,
    Transport = 2,
}

/// What `ct` loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ct {
    State = 0,
    Status = 2,
}

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Drop,
    Accept,
    /// Goes on in the chain, and comes back behind its end.
    Jump(Name),
}

/// One step of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expression {
    Meta(Meta, Word),
    Payload {
        from: Header,
        at: u32,
        length: u32,
        to: Word,
    },
    /// The bits of the mask, of as many bytes as it has.
    Mask {
        word: Word,
        mask: Vec<u8>,
    },
    Equal(Word, Vec<u8>),
    NotEqual(Word, Vec<u8>),
    /// Goes on where the key is in the set.
    In(Word, Name),
    /// Goes on where the key isn't in the set.
    NotIn(Word, &'static str),
    /// Does what the map says of the key, if it has it.
    Decide(Word, &'static str),
    /// Goes on with the key's value where the map has it.
    Map {
        key: Word,
        map: &'static str,
        to: Word,
    },
    Ct(Ct, Word),
    /// The kind of the destination address (`RTN_LOCAL` and others).
    DestinationKind(Word),
    /// To the address and the port in the registers.
    Redirect {
        ipv4: bool,
        address: Word,
        port: Word,
    },
    Masquerade,
    /// Answers "administratively prohibited", in both families.
    Prohibit,
    /// Answers TCP as a port does at which nothing listens.
    Reset,
    Counter,
    /// Goes on where more connections than that came by this rule and are there still.
    ConnectionsOver(u32),
    /// Sets bits of a register.
    SetBits {
        word: Word,
        bits: u32,
    },
    /// Gives the packet the register as its mark.
    SetMark(Word),
    Verdict(Verdict),
}

const SOURCE: u16 = 1;

/// `NFTA_DATA_VALUE` in its nest.
fn value(bytes: &[u8]) -> Attributes {
    Attributes::default().bytes(1, bytes)
}

/// `NFTA_DATA_VERDICT` in its nest.
pub(crate) fn verdict(verdict: &Verdict) -> Attributes {
    let (code, chain) = match verdict {
        Verdict::Drop => (0i32, None),
        Verdict::Accept => (1, None),
        Verdict::Jump(chain) => (-3, Some(chain.as_ref())),
    };
    let mut inner = Attributes::default().number(1, code.cast_unsigned());
    if let Some(chain) = chain {
        inner = inner.text(2, chain);
    }
    Attributes::default().nest(2, inner)
}

fn compare(word: Word, operation: u32, bytes: &[u8]) -> Attributes {
    Attributes::default()
        .number(SOURCE, word.number())
        .number(2, operation)
        .nest(3, value(bytes))
}

fn look_up(word: Word, set: &str, to: Option<u32>, inverted: bool) -> Attributes {
    let mut data = Attributes::default().text(1, set).number(2, word.number());
    if let Some(to) = to {
        data = data.number(3, to);
    }
    if inverted {
        data = data.number(5, 1);
    }
    data
}

/// The register's bits of the mask, and then those of `flip` turned.
fn mask_of(word: Word, mask: &[u8], flip: &[u8]) -> Attributes {
    let length = u32::try_from(mask.len()).unwrap_or(0);
    Attributes::default()
        .number(SOURCE, word.number())
        .number(2, word.number())
        .number(3, length)
        .nest(4, value(mask))
        .nest(5, value(flip))
}

fn redirect(ipv4: bool, address: Word, port: Word) -> Attributes {
    const NFPROTO_IPV4: u32 = 2;
    const NFPROTO_IPV6: u32 = 10;
    let family = if ipv4 { NFPROTO_IPV4 } else { NFPROTO_IPV6 };
    Attributes::default()
        .number(1, 1)
        .number(2, family)
        .number(3, address.number())
        .number(5, port.number())
}

/// An expression by its name: `NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`.
fn named(name: &str, data: Attributes) -> Attributes {
    Attributes::default().text(1, name).nest(2, data)
}

impl Expression {
    pub(crate) fn encode(&self) -> Attributes {
        let none = Attributes::default;
        match self {
            Expression::Meta(key, to) => {
                named("meta", none().number(1, to.number()).number(2, *key as u32))
            }
            Expression::Payload {
                from,
                at,
                length,
                to,
            } => {
                let data = none().number(1, to.number()).number(2, *from as u32);
                named("payload", data.number(3, *at).number(4, *length))
            }
            Expression::Mask { word, mask } => {
                named("bitwise", mask_of(*word, mask, &vec![0; mask.len()]))
            }
            Expression::Equal(word, bytes) => named("cmp", compare(*word, 0, bytes)),
            Expression::NotEqual(word, bytes) => named("cmp", compare(*word, 1, bytes)),
            Expression::In(word, set) => named("lookup", look_up(*word, set, None, false)),
            Expression::NotIn(word, set) => named("lookup", look_up(*word, set, None, true)),
            Expression::Map { key, map, to } => {
                named("lookup", look_up(*key, map, Some(to.number()), false))
            }
            // Register 0 is the verdict.
            Expression::Decide(key, map) => named("lookup", look_up(*key, map, Some(0), false)),
            Expression::Ct(key, to) => {
                named("ct", none().number(1, to.number()).number(2, *key as u32))
            }
            Expression::DestinationKind(to) => {
                // Result: the kind. Flags: of the destination.
                named(
                    "fib",
                    none().number(1, to.number()).number(2, 3).number(3, 2),
                )
            }
            Expression::Redirect {
                ipv4,
                address,
                port,
            } => named("nat", redirect(*ipv4, *address, *port)),
            Expression::Masquerade => named("masq", none()),
            // Type: of either ICMP; code: administratively prohibited.
            Expression::Prohibit => named("reject", none().number(1, 2).bytes(2, &[3])),
            // Type: a segment that resets.
            Expression::Reset => named("reject", none().number(1, 1)),
            Expression::Counter => named("counter", none()),
            // Flags: what is over the limit.
            Expression::ConnectionsOver(limit) => {
                named("connlimit", none().number(1, *limit).number(2, 1))
            }
            Expression::SetBits { word, bits } => {
                let (mask, flip) = ((!bits).to_ne_bytes(), bits.to_ne_bytes());
                named("bitwise", mask_of(*word, &mask, &flip))
            }
            Expression::SetMark(from) => {
                let data = none().number(2, Meta::Mark as u32);
                named("meta", data.number(3, from.number()))
            }
            Expression::Verdict(what) => {
                named("immediate", none().number(1, 0).nest(2, verdict(what)))
            }
        }
    }
}
