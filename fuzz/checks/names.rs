// SPDX-License-Identifier: Apache-2.0
//! Names and the other short texts that people write: what is accepted is written as it was read,
//! holds nothing but what it may, and is within its bounds. Run by the fuzz target of this name and
//! by `model`'s tests.

use model::capability::CapabilitySet;
use model::name::{ObjectPath, RequestId, Tenant, Uid};
use model::selector::Selector;
use model::signal::Signal;
use model::update::Field;
use model::{errno, quantity, resources};

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    names(text);
    others(text);
}

fn names(text: &str) {
    if let Ok(path) = text.parse::<ObjectPath>() {
        assert_eq!(path.to_string(), text);
        assert!(!path.labels().is_empty());
        assert!(
            text.bytes()
                .all(|b| b"abcdefghijklmnopqrstuvwxyz0123456789-/".contains(&b))
        );
    }
    if let Ok(tenant) = text.parse::<Tenant>() {
        assert_eq!(tenant.to_string(), text);
    }
    if let Ok(uid) = text.parse::<Uid>() {
        assert_eq!(uid.to_string(), text);
    }
    if let Ok(id) = text.parse::<RequestId>() {
        assert_eq!(id.to_string(), text);
        assert!(text.len() <= 64 && !text.chars().any(char::is_control));
    }
}

fn others(text: &str) {
    if let Ok(signal) = text.parse::<Signal>() {
        assert_eq!(signal.to_string().parse::<Signal>(), Ok(signal));
    }
    if let Ok(numbers) = resources::parse_list(text) {
        assert!(numbers.is_sorted_by(|one, next| one < next));
    }
    if let Some(number) = errno::parse(text) {
        assert!((1..=133).contains(&number));
    }
    let _ = text.parse::<Selector>();
    let _ = text.parse::<CapabilitySet>();
    let _ = text.parse::<Field>();
    let _ = quantity::parse_bytes(text);
    let _ = quantity::parse_duration(text);
}
