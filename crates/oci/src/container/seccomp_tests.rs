// SPDX-License-Identifier: Apache-2.0
//! Profiles in the Docker form, and what they become.

use super::*;

fn read(text: &str) -> Seccomp {
    serde_json::from_str(text).unwrap()
}

fn refused(text: &str) -> String {
    compile(&read(text)).unwrap_err().to_string()
}

#[test]
fn a_profile_of_the_engine_is_compiled_for_its_architectures() {
    let profile = read(
        r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1,
        "architectures":["SCMP_ARCH_X86_64","SCMP_ARCH_X86","SCMP_ARCH_X32","SCMP_ARCH_ARM"],
        "syscalls":[
          {"names":["read","write","exit_group","_llseek"],"action":"SCMP_ACT_ALLOW"},
          {"names":["personality"],"action":"SCMP_ACT_ALLOW",
           "args":[{"index":0,"value":8,"op":"SCMP_CMP_EQ"}]},
          {"names":["clone"],"action":"SCMP_ACT_ALLOW",
           "args":[{"index":0,"value":2114060288,"valueTwo":0,"op":"SCMP_CMP_MASKED_EQ"}]},
          {"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38}]}"#,
    );
    let filter = compile(&profile).unwrap();
    assert!(filter.program.len() > 20 * 8);
    assert!(filter.options.allow_speculation, "no flags are given");
}

#[test]
fn flags_are_the_kernels() {
    let filter = compile(&read(
        r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_LOG"],
            "syscalls":[]}"#,
    ))
    .unwrap();
    assert!(filter.options.log && !filter.options.allow_speculation);
    let unknown = refused(r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["MOON"]}"#);
    assert!(unknown.contains("MOON"), "{unknown}");
}

#[test]
fn words_that_are_not_known_are_refused_by_name() {
    for (text, name) in [
        (r#"{"defaultAction":"SCMP_ACT_NONE"}"#, "SCMP_ACT_NONE"),
        (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "SCMP_ACT_NOTIFY"),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_PDP11"]}"#,
            "PDP11",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
                {"names":["read"],"action":"SCMP_ACT_ERRNO",
                 "args":[{"index":6,"op":"SCMP_CMP_EQ"}]}]}"#,
            "0 to 5",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
                {"names":["read"],"action":"SCMP_ACT_NOTIFY"}]}"#,
            "listenerPath",
        ),
        (
            r#"{"defaultAction":"SCMP_ACT_KILL","defaultErrnoRet":1}"#,
            "errno",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(name), "{error}");
    }
}
