// SPDX-License-Identifier: Apache-2.0
//! A shell in the initramfs where the root can't be reached, for a user that knows the password
//! whose hash the initramfs has in its `/etc/shadow` (shadow(5)). Without a hash there is none: who
//! is at the console is no administrator by that alone, and an initramfs is often readable by all.
//!
//! When the shell ends, the root is tried again; what was mounted at `/sysroot` by hand is it. With
//! `panic=` the machine restarts as that says and has no shell: it is one that no one sits at.

use super::{SYSROOT, Words};
use crate::node::Console;
use crate::sulogin;

const SHADOW: &str = "/etc/shadow";
/// The shortest hash of crypt(5): that of DES.
const SHORTEST: usize = 13;

/// Has a user that knows the password see to it. `false`: there is no such way.
pub(super) fn ask(words: &Words, console: &Console) -> bool {
    if words.panic != 0 || !has_password(&std::fs::read_to_string(SHADOW).unwrap_or_default()) {
        return false;
    }
    console.say(&format!(
        "a shell is on the console for who knows root's password; mount the root at {SYSROOT}, \
         or mend what is missing: when the shell ends, it is tried again"
    ));
    let Some(lasted) = sulogin::run(console) else {
        return false;
    };
    // Nothing is tried again and again for a console that can't be read.
    let asked = lasted >= sulogin::ASKED;
    if !asked {
        console.say("the shell has ended at once: no user was asked");
    }
    asked
}

/// Whether root has one. What can't be matched begins with `!` or `*`; an empty field asks for
/// none, which is no way in here.
fn has_password(shadow: &str) -> bool {
    let root = shadow.lines().find_map(|line| line.strip_prefix("root:"));
    let hash = root.and_then(|rest| rest.split(':').next());
    hash.is_some_and(|hash| hash.len() >= SHORTEST && !hash.starts_with(['!', '*']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hash_that_a_password_can_match_is_a_way_in() {
        for shadow in [
            "root:$6$salt$hashhashhash:1::::::\n",
            "daemon:*:1:\nroot:$y$j9T$salt$hash:19000:0:99999:7:::",
            "root:abJnggxhB/yWI:1::::::",
        ] {
            assert!(has_password(shadow), "{shadow}");
        }
        for shadow in [
            "",
            "root::1::::::",
            "root:*:1::::::",
            "root:!$6$salt$hashhashhash:1::::::",
            "root:x:1::::::",
            "toor:$6$salt$hashhashhash:1::::::",
        ] {
            assert!(!has_password(shadow), "{shadow}");
        }
    }
}
