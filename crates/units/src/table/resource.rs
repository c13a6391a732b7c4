// SPDX-License-Identifier: Apache-2.0
//! The rows of systemd.resource-control(5), with those of cgroup v1, which do nothing here: a node
//! has cgroup v2.

use super::{Directive, row};
use crate::value::Kind::{
    DeviceCount, DeviceLatency, DeviceRate, DeviceWeight, Devices, Flag, Gone, Indices, Interfaces,
    Memory, Networks, Path, Quota, Shaped, ShapedList, SpanOrEmpty, Tasks, Unit, Weight, Word,
    WordOrNone,
};
use crate::value::shape::Shape::{Controller, Port, Program, Share};

const OOM: &[&str] = &["auto", "kill"];

pub(super) const RESOURCE: &[Directive] = &[
    row("Slice", Unit("slice")),
    row("AllowedCPUs", Indices),
    row("StartupAllowedCPUs", Indices),
    row("AllowedMemoryNodes", Indices),
    row("StartupAllowedMemoryNodes", Indices),
    row("CPUAccounting", Flag),
    row("CPUWeight", Weight),
    row("StartupCPUWeight", Weight),
    row("CPUShares", Gone),
    row("StartupCPUShares", Gone),
    row("CPUQuota", Quota),
    row("CPUQuotaPeriodSec", SpanOrEmpty),
    row("MemoryAccounting", Flag),
    row("DefaultMemoryMin", Memory),
    row("DefaultMemoryLow", Memory),
    row("MemoryMin", Memory),
    row("MemoryLow", Memory),
    row("MemoryHigh", Memory),
    row("MemoryMax", Memory),
    row("MemorySwapMax", Memory),
    // On cgroup v2 systemd takes it for MemoryMax= where that isn't set.
    row("MemoryLimit", Memory),
    row("DeviceAllow", Devices).guards(),
    row("DevicePolicy", Word(&["auto", "closed", "strict"])).guards(),
    row("IOAccounting", Flag),
    row("IOWeight", Weight),
    row("StartupIOWeight", Weight),
    row("IODeviceWeight", DeviceWeight),
    row("IOReadBandwidthMax", DeviceRate),
    row("IOWriteBandwidthMax", DeviceRate),
    row("IOReadIOPSMax", DeviceCount),
    row("IOWriteIOPSMax", DeviceCount),
    row("IODeviceLatencyTargetSec", DeviceLatency),
    row("BlockIOAccounting", Gone),
    row("BlockIOWeight", Gone),
    row("StartupBlockIOWeight", Gone),
    row("BlockIODeviceWeight", Gone),
    row("BlockIOReadBandwidth", Gone),
    row("BlockIOWriteBandwidth", Gone),
    row("TasksAccounting", Flag),
    row("TasksMax", Tasks),
    row("Delegate", ShapedList(Controller)),
    row("DisableControllers", ShapedList(Controller)),
    row("IPAccounting", Flag),
    row("IPAddressAllow", Networks).guards(),
    row("IPAddressDeny", Networks).guards(),
    row("IPIngressFilterPath", Path).guards(),
    row("IPEgressFilterPath", Path).guards(),
    row("ManagedOOMSwap", WordOrNone(OOM)),
    row("ManagedOOMMemoryPressure", WordOrNone(OOM)),
    row("ManagedOOMMemoryPressureLimit", Shaped(Share)),
    row("ManagedOOMPreference", Word(&["none", "avoid", "omit"])),
    row("BPFProgram", Shaped(Program)).guards(),
    row("SocketBindAllow", ShapedList(Port)).guards(),
    row("SocketBindDeny", ShapedList(Port)).guards(),
    row("RestrictNetworkInterfaces", Interfaces).guards(),
];
