// SPDX-License-Identifier: Apache-2.0
//! Pods: what is asked for ([`spec`]), what may not be asked for (`check`), and what is to be done
//! next, decided purely: [`steps`] says which containers are to be started and stopped, with
//! [`backoff`] and, for probes, [`verdict`]. The crate `pod` does it.
//!
//! The behaviour is that of Kubernetes' pods, as its documentation has it ("Pod Lifecycle", "Init
//! Containers", "Sidecar Containers", "Configure Liveness, Readiness and Startup Probes"); the
//! terms are ours. [`manifest`] reads Kubernetes' own documents.

pub mod backoff;
mod check;
pub mod debug;
pub mod env;
pub mod manifest;
mod network;
pub mod probe;
pub mod qos;
pub mod request;
pub mod spec;
pub mod status;
pub mod steps;
pub mod sub_path;
pub mod told;
pub mod update;
pub mod user;
pub mod verdict;
pub mod volume;

pub use spec::{Draft, PodSpec};
