// SPDX-License-Identifier: Apache-2.0
//! Names: what is accepted is written as it was read, and holds nothing but labels.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::name::{ObjectPath, Tenant, Uid};

fuzz_target!(|text: &str| {
    if let Ok(path) = text.parse::<ObjectPath>() {
        assert_eq!(path.to_string(), text);
        assert!(!path.labels().is_empty());
        assert!(text.bytes().all(|b| b"abcdefghijklmnopqrstuvwxyz0123456789-/".contains(&b)));
    }
    if let Ok(tenant) = text.parse::<Tenant>() {
        assert_eq!(tenant.to_string(), text);
    }
    if let Ok(uid) = text.parse::<Uid>() {
        assert_eq!(uid.to_string(), text);
    }
});
