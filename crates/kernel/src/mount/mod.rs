// SPDX-License-Identifier: Apache-2.0
//! Mounts.

pub mod info;
