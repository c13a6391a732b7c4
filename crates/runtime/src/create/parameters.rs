// SPDX-License-Identifier: Apache-2.0
//! Parameters of the kernel that a cell asks for: those of namespaces that are its own, by an
//! allow-list. The cell-init writes them, before anything runs in the cell.

use kernel::namespace::Namespaces;
use kernel::sysctl;
use model::cell::{CellSpec, Namespace};
use model::error::Error;

/// # Errors
/// `INVALID_FIELD`: a parameter of the machine, or of a namespace that the cell shares.
pub(super) fn check(spec: &CellSpec) -> Result<(), Error> {
    for name in spec.sysctls.keys() {
        let at = format!("cell.spec.sysctls[{name:?}]");
        let (namespace, word) = match sysctl::namespace(name) {
            Some(Namespaces::NET) => (Namespace::Net, "net"),
            Some(Namespaces::IPC) => (Namespace::Ipc, "ipc"),
            _ => {
                let problem = format!("{name} is the whole machine's");
                let known = "a cell may set net.*, kernel.shm*, kernel.msg*, kernel.sem and \
                             fs.mqueue.*";
                return Err(Error::invalid(at, problem).hint(known));
            }
        };
        if spec.shares(namespace) {
            let problem = format!("{name} belongs to the {word} namespace, which the cell shares");
            return Err(Error::invalid(at, problem).hint("set it where the namespace is made"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::cell::Draft;

    #[test]
    fn a_parameter_is_one_of_the_cells_own_namespaces() {
        let refusal = |name: &str, share: &[Namespace]| {
            let draft = Draft {
                sysctls: [(name.to_owned(), "1".to_owned())].into(),
                share: share.iter().copied().collect(),
                ..Draft::default()
            };
            check(&draft.try_into().unwrap()).map_err(|error| error.message.clone())
        };
        for name in ["net.core.somaxconn", "kernel.shmmax", "fs.mqueue.msg_max"] {
            refusal(name, &[]).unwrap();
            let shared = refusal(name, &[Namespace::Net, Namespace::Ipc]).unwrap_err();
            assert!(shared.contains("shares"), "{shared}");
        }
        for name in [
            "kernel.core_pattern",
            "kernel.hostname",
            "user.max_net_namespaces",
            "vm.swappiness",
            "fs.suid_dumpable",
        ] {
            let machines = refusal(name, &[]).unwrap_err();
            assert!(machines.contains("machine's"), "{machines}");
        }
    }
}
