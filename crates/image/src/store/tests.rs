// SPDX-License-Identifier: Apache-2.0
//! The store against crashes, a full disk, and processes that lie.

use super::*;
