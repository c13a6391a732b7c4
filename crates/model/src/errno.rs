// SPDX-License-Identifier: Apache-2.0
//! Error numbers by name, as Linux has them on x86_64 and aarch64 (asm-generic). A table, for what
//! users write (`errno: EPERM`) and for what errors show.

const NAMES: [&str; 133] = [
    "EPERM",
    "ENOENT",
    "ESRCH",
    "EINTR",
    "EIO",
    "ENXIO",
    "E2BIG",
    "ENOEXEC",
    "EBADF",
    "ECHILD",
    "EAGAIN",
    "ENOMEM",
    "EACCES",
    "EFAULT",
    "ENOTBLK",
    "EBUSY",
    "EEXIST",
    "EXDEV",
    "ENODEV",
    "ENOTDIR",
    "EISDIR",
    "EINVAL",
    "ENFILE",
    "EMFILE",
    "ENOTTY",
    "ETXTBSY",
    "EFBIG",
    "ENOSPC",
    "ESPIPE",
    "EROFS",
    "EMLINK",
    "EPIPE",
    "EDOM",
    "ERANGE",
    "EDEADLK",
    "ENAMETOOLONG",
    "ENOLCK",
    "ENOSYS",
    "ENOTEMPTY",
    "ELOOP",
    "",
    "ENOMSG",
    "EIDRM",
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
    "EBADSLT",
    "",
    "EBFONT",
    "ENOSTR",
    "ENODATA",
    "ETIME",
    "ENOSR",
    "ENONET",
    "ENOPKG",
    "EREMOTE",
    "ENOLINK",
    "EADV",
    "ESRMNT",
    "ECOMM",
    "EPROTO",
    "EMULTIHOP",
    "EDOTDOT",
    "EBADMSG",
    "EOVERFLOW",
    "ENOTUNIQ",
    "EBADFD",
    "EREMCHG",
    "ELIBACC",
    "ELIBBAD",
    "ELIBSCN",
    "ELIBMAX",
    "ELIBEXEC",
    "EILSEQ",
    "ERESTART",
    "ESTRPIPE",
    "EUSERS",
    "ENOTSOCK",
    "EDESTADDRREQ",
    "EMSGSIZE",
    "EPROTOTYPE",
    "ENOPROTOOPT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EOPNOTSUPP",
    "EPFNOSUPPORT",
    "EAFNOSUPPORT",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "ENETUNREACH",
    "ENETRESET",
    "ECONNABORTED",
    "ECONNRESET",
    "ENOBUFS",
    "EISCONN",
    "ENOTCONN",
    "ESHUTDOWN",
    "ETOOMANYREFS",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EALREADY",
    "EINPROGRESS",
    "ESTALE",
    "EUCLEAN",
    "ENOTNAM",
    "ENAVAIL",
    "EISNAM",
    "EREMOTEIO",
    "EDQUOT",
    "ENOMEDIUM",
    "EMEDIUMTYPE",
    "ECANCELED",
    "ENOKEY",
    "EKEYEXPIRED",
    "EKEYREVOKED",
    "EKEYREJECTED",
    "EOWNERDEAD",
    "ENOTRECOVERABLE",
    "ERFKILL",
    "EHWPOISON",
];

/// The number of a name, or of a number from 1 to 133 written as text.
pub fn parse(text: &str) -> Option<u16> {
    if let Ok(number) = text.parse::<u16>() {
        return (1..=133).contains(&number).then_some(number);
    }
    let index = NAMES.iter().position(|n| !n.is_empty() && *n == text)?;
    u16::try_from(index + 1).ok()
}

/// The same with every number that the kernel may answer (`MAX_ERRNO`), whether it has a name or
/// not: what a filter of system calls may give.
pub fn parse_any(text: &str) -> Option<u16> {
    let number = text.parse().ok().filter(|it| (1..=4095).contains(it));
    number.or_else(|| parse(text))
}

/// The name of a number, e.g. `ENOENT`.
pub fn name(number: i32) -> Option<&'static str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    NAMES.get(index).copied().filter(|n| !n.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_have_the_kernels_numbers() {
        for (name, number) in [
            ("EPERM", 1),
            ("ENOENT", 2),
            ("EINVAL", 22),
            ("ENOSYS", 38),
            ("ELOOP", 40),
            ("ENOMSG", 42),
            ("EILSEQ", 84),
            ("EOPNOTSUPP", 95),
            ("ETIMEDOUT", 110),
            ("ECONNREFUSED", 111),
            ("EDQUOT", 122),
            ("EHWPOISON", 133),
        ] {
            assert_eq!(super::parse(name), Some(number), "{name}");
            assert_eq!(super::name(i32::from(number)), Some(name));
        }
        assert_eq!(super::parse("0"), None);
        assert_eq!(super::parse(""), None);
        assert_eq!(super::name(0), None);
        assert_eq!(
            (super::parse("255"), super::parse_any("255")),
            (None, Some(255))
        );
        assert_eq!(super::parse_any("EPERM"), Some(1));
        for wrong in ["0", "4096", "-1", "EWHAT", ""] {
            assert_eq!(super::parse_any(wrong), None, "{wrong}");
        }
    }
}
