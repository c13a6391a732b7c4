// SPDX-License-Identifier: Apache-2.0
//! What a cell's root can't do, tried from inside with all capabilities of its user namespace.

use crate::Story;
use crate::bed::*;

pub(crate) const STORIES: &[Story] = &[];

pub(crate) fn be_workload(arguments: Vec<String>) {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["descriptors"] => descriptors(),
        ["orphans", count] => orphans(count.parse().unwrap()),
        other => panic!("{other:?}"),
    }
}

fn descriptors() {
    let mut open: Vec<i32> = (0..4096)
        .filter(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok())
        .collect();
    open.sort_unstable();
    let words: Vec<String> = open.iter().map(i32::to_string).collect();
    println!("{}", words.join(" "));
}

fn orphans(count: u32) {
    use kernel::clone::{Cloned, Options, clone};
    for _ in 0..count {
        if let Cloned::Child = clone(Options::default()).unwrap() {
            kernel::process::exit(0)
        }
    }
}
