// SPDX-License-Identifier: Apache-2.0
//! Linux, safely. The only crate with `unsafe`; it knows nothing of Aurae. `init` and `node` call it.
#![allow(unsafe_code, reason = "system calls that rustix does not wrap")]
