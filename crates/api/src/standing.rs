// SPDX-License-Identifier: Apache-2.0
//! As what a call is made, where that is less than its caller is. A node that passes on what its
//! members ask for has an administrator's certificate of the other node, and must not lend it to
//! them: it says so in the call's metadata. Only a right can be given up so, none be taken.

/// The key of the metadata.
pub const KEY: &str = "aurae-as";
/// Its one value: no more than a member of the tenant whose objects the call is about.
pub const MEMBER: &str = "member";
