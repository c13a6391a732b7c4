// SPDX-License-Identifier: Apache-2.0
//! The actions of policies: one per method, named `subsystem.Method`, in the group `subsystem`.
//! Generated from the descriptors, so that a new method is an action at once. `auraed` hands them
//! to `identity`, which builds its schema from them.

/// One method, as an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Action {
    /// Group and method, as policies name it: `runtime.RunCell`.
    pub name: &'static str,
    /// The subsystem, which is also an action that holds its methods: `runtime`.
    pub group: &'static str,
    /// The request's path: `/aurae.runtime.v0.Runtime/RunCell`.
    pub rpc: &'static str,
    /// The client sends a stream.
    pub client_streams: bool,
    /// The server answers with a stream.
    pub server_streams: bool,
    /// It may change something: everything that isn't marked `NO_SIDE_EFFECTS`.
    pub changes: bool,
}

include!(concat!(env!("OUT_DIR"), "/actions.rs"));

/// The action of a request's path.
pub fn of_rpc(path: &str) -> Option<&'static Action> {
    ACTIONS.iter().find(|action| action.rpc == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_descriptors_is_an_action() {
        let pool = crate::descriptor_pool().unwrap();
        let mut methods = 0;
        for method in pool
            .services()
            .flat_map(|s| s.methods().collect::<Vec<_>>())
        {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            let action = of_rpc(&path).unwrap();
            assert_eq!(action.name, format!("{}.{}", action.group, method.name()));
            assert_eq!(action.server_streams, method.is_server_streaming());
            methods += 1;
        }
        assert_eq!(methods, ACTIONS.len());
        let changes = |name: &str| ACTIONS.iter().find(|it| it.name == name).unwrap().changes;
        assert!(changes("runtime.RunCell") && !changes("runtime.List"));
        assert_eq!(identity::WHO_AM_I, "identity.WhoAmI");
    }
}
