// SPDX-License-Identifier: Apache-2.0
//! The numbers of x32 calls: those of x86_64 with a bit set, but for the calls whose structures
//! differ, which have numbers of their own (the kernel's `syscall_64.tbl`).

use super::Arch;
use super::compile::X32_BIT;

/// Calls with numbers of their own.
const OWN: [(&str, u32); 34] = [
    ("rt_sigaction", 512),
    ("rt_sigreturn", 513),
    ("ioctl", 514),
    ("readv", 515),
    ("writev", 516),
    ("recvfrom", 517),
    ("sendmsg", 518),
    ("recvmsg", 519),
    ("execve", 520),
    ("ptrace", 521),
    ("rt_sigpending", 522),
    ("rt_sigtimedwait", 523),
    ("rt_sigqueueinfo", 524),
    ("sigaltstack", 525),
    ("timer_create", 526),
    ("mq_notify", 527),
    ("kexec_load", 528),
    ("waitid", 529),
    ("set_robust_list", 530),
    ("get_robust_list", 531),
    ("vmsplice", 532),
    ("move_pages", 533),
    ("preadv", 534),
    ("pwritev", 535),
    ("rt_tgsigqueueinfo", 536),
    ("process_vm_readv", 537),
    ("process_vm_writev", 538),
    ("setsockopt", 539),
    ("getsockopt", 540),
    ("io_setup", 541),
    ("io_submit", 542),
    ("execveat", 543),
    ("preadv2", 546),
    ("pwritev2", 547),
];

pub(super) fn number(name: &str) -> Option<u32> {
    let own = OWN.iter().find(|(own, _)| *own == name);
    let number = match own {
        Some((_, number)) => *number,
        None => Arch::X86_64.number(name)?,
    };
    Some(number | X32_BIT)
}

pub(super) fn name(number: u32) -> Option<&'static str> {
    if number & X32_BIT == 0 {
        return None;
    }
    let plain = number & !X32_BIT;
    let own = OWN.iter().find(|(_, own)| *own == plain);
    own.map(|(name, _)| *name)
        .or_else(|| Arch::X86_64.name(plain))
}

pub(super) fn numbers() -> Vec<u32> {
    let names = Arch::X86_64.numbers().into_iter();
    let names = names.filter_map(|number| Arch::X86_64.name(number));
    names.filter_map(number).collect()
}
