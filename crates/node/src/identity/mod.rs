// SPDX-License-Identifier: Apache-2.0
//! Who may speak to the node, and what they may do: CA, users, Cedar policies, audit.

pub mod permit;
