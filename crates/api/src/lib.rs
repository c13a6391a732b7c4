// SPDX-License-Identifier: Apache-2.0
//! The wire: generated stubs, conversion to and from `model`, status details.
