// SPDX-License-Identifier: Apache-2.0
//! `WWW-Authenticate` as RFC 9110 defines it (sections 11.2, 11.3, 11.6.1 and 5.6): a list of
//! challenges, each a scheme with a token68 or with parameters. Pure; called by `session` when a
//! registry answers 401. It does not decide what is done with a challenge.

/// The longest header that is read, in bytes.
const LONGEST: usize = 8 << 10;
/// The most challenges of one answer, and the most parameters of one challenge.
const MOST: usize = 16;

/// One challenge of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The scheme in lower case, e.g. `bearer`.
    pub(crate) scheme: String,
    /// Names in lower case with their values, in the server's order.
    pub(crate) parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The value of a parameter, whose name is compared without case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

/// The challenges of one header field.
///
/// # Errors
/// A sentence without a subject that says what is wrong, for the error that names the host.
pub(crate) fn parse(header: &str) -> Result<Vec<Challenge>, String> {
    if header.len() > LONGEST {
        return Err(format!("a challenge of more than {LONGEST} bytes"));
    }
    let mut cursor = Cursor { rest: header };
    let mut found = Vec::new();
    loop {
        cursor.skip_list();
        if cursor.rest.is_empty() {
            return Ok(found);
        }
        if found.len() == MOST {
            return Err(format!("more than {MOST} challenges"));
        }
        found.push(cursor.challenge()?);
    }
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn challenge(&mut self) -> Result<Challenge, String> {
        let scheme = self.token().ok_or("a challenge without a scheme")?;
        let scheme = scheme.to_ascii_lowercase();
        let mut parameters: Vec<(String, String)> = Vec::new();
        let spaced = self.rest.starts_with(' ');
        if !spaced && !self.rest.is_empty() && !self.at_separator() {
            return Err(format!(
                "a character after the scheme {scheme} that isn't a space"
            ));
        }
        self.skip_spaces();
        if spaced && self.skip_token68() {
            return Ok(Challenge { scheme, parameters });
        }
        while let Some((name, value)) = self.parameter()? {
            if parameters.iter().any(|(known, _)| *known == name) {
                return Err(format!("the parameter {name} twice"));
            }
            if parameters.len() == MOST {
                return Err(format!("more than {MOST} parameters"));
            }
            parameters.push((name, value));
            self.skip_spaces();
            if !self.rest.is_empty() && !self.at_separator() {
                return Err("a parameter that no comma ends".to_owned());
            }
        }
        Ok(Challenge { scheme, parameters })
    }

    /// A parameter, after the list's separators; nothing is taken where a new challenge begins.
    fn parameter(&mut self) -> Result<Option<(String, String)>, String> {
        let before = self.rest;
        self.skip_list();
        let name = self.token();
        self.skip_spaces();
        let Some((name, rest)) = name.zip(self.rest.strip_prefix('=')) else {
            self.rest = before;
            return Ok(None);
        };
        self.rest = rest;
        self.skip_spaces();
        let value = match self.rest.strip_prefix('"') {
            Some(rest) => {
                self.rest = rest;
                self.quoted()?
            }
            None => {
                let value = self.token();
                value
                    .ok_or_else(|| format!("no value for {name}"))?
                    .to_owned()
            }
        };
        Ok(Some((name.to_ascii_lowercase(), value)))
    }

    /// The rest of a quoted string, whose first quote is taken already (RFC 9110, section 5.6.4).
    fn quoted(&mut self) -> Result<String, String> {
        let mut value = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = self.rest.get(at + 1..).unwrap_or_default();
                    return Ok(value);
                }
                '\\' => {
                    let escaped = characters
                        .next()
                        .ok_or("a string that ends in a backslash")?;
                    value.push(escaped.1);
                }
                other if other.is_control() && other != '\t' => {
                    return Err("a control character in a string".to_owned());
                }
                other => value.push(other),
            }
        }
        Err("a string without its closing quote".to_owned())
    }

    fn token(&mut self) -> Option<&'a str> {
        let end = self
            .rest
            .find(|it| !is_token(it))
            .unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    /// A token68, which is told from a parameter by what follows: the end of the list's element.
    fn skip_token68(&mut self) -> bool {
        let body = self.rest.trim_start_matches(is_token68);
        if body.len() == self.rest.len() {
            return false;
        }
        let after = body.trim_start_matches('=').trim_start_matches([' ', '\t']);
        let ends = after.is_empty() || after.starts_with(',');
        if ends {
            self.rest = after;
        }
        ends
    }

    fn at_separator(&self) -> bool {
        self.rest.starts_with([',', '\t'])
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Separators of a list, whose elements may be empty (RFC 9110, section 5.6.1.2).
    fn skip_list(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
    }
}

fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

fn is_token68(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~+/".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(scheme: &str, parameters: &[(&str, &str)]) -> Challenge {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Challenge {
            scheme: scheme.to_owned(),
            parameters: parameters.iter().map(owned).collect(),
        }
    }

    #[test]
    fn a_registrys_challenge_is_read() {
        let header = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push""#;
        let expected = [
            ("realm", "https://auth.example/token"),
            ("service", "registry.example"),
            ("scope", "repository:a/b:pull,push"),
        ];
        assert_eq!(parse(header), Ok(vec![challenge("bearer", &expected)]));
    }

    #[test]
    fn several_challenges_share_a_header() {
        let header =
            r#"Negotiate, Basic realm="a, \"b\" \\" , BEARER Realm = x,error="insufficient_scope""#;
        let expected = vec![
            challenge("negotiate", &[]),
            challenge("basic", &[("realm", r#"a, "b" \"#)]),
            challenge("bearer", &[("realm", "x"), ("error", "insufficient_scope")]),
        ];
        assert_eq!(parse(header), Ok(expected));
    }

    #[test]
    fn a_token68_is_no_parameter() {
        let header = "Negotiate YWJj/+8==, Basic realm=\"x\"";
        let expected = vec![
            challenge("negotiate", &[]),
            challenge("basic", &[("realm", "x")]),
        ];
        assert_eq!(parse(header), Ok(expected));
        assert_eq!(parse("NTLM abc"), Ok(vec![challenge("ntlm", &[])]));
    }

    #[test]
    fn a_name_with_nothing_behind_its_equals_sign_is_a_token68_by_the_grammar() {
        assert_eq!(parse("Bearer realm="), Ok(vec![challenge("bearer", &[])]));
    }

    #[test]
    fn empty_elements_of_the_list_are_skipped() {
        assert_eq!(
            parse(" ,, Basic realm=\"x\",, ,charset=\"UTF-8\", ,"),
            Ok(vec![challenge(
                "basic",
                &[("realm", "x"), ("charset", "UTF-8")]
            )])
        );
        assert_eq!(parse(""), Ok(vec![]));
    }

    #[test]
    fn what_is_not_of_the_grammar_is_refused() {
        for (header, problem) in [
            ("Bearer realm=\"x", "closing quote"),
            ("Bearer realm=\"x\\", "backslash"),
            ("Bearer realm=x,service=", "no value for service"),
            ("Bearer realm=\"x\",realm=\"y\"", "twice"),
            ("Bearer realm=\"x\"service=\"y\"", "no comma"),
            ("Bearer realm=\"a\u{1}b\"", "control character"),
            ("=x", "without a scheme"),
            ("Bearer/x y", "isn't a space"),
        ] {
            let found = parse(header).unwrap_err();
            assert!(found.contains(problem), "{header}: {found}");
        }
    }

    #[test]
    fn a_flood_is_refused() {
        assert!(parse(&"a,".repeat(LONGEST)).is_err());
        assert!(parse(&"Basic x=y, ".repeat(MOST + 1)).is_err());
        let many: Vec<String> = (0..=MOST).map(|it| format!("p{it}=v")).collect();
        assert!(parse(&format!("Basic {}", many.join(","))).is_err());
    }

    #[test]
    fn no_bytes_are_too_strange() {
        // Every cut of a good header, and every header with one character changed, gives an answer.
        let good = r#"Basic realm="é\"x", Bearer realm="https://a/b",service=c , Negotiate YQ=="#;
        for (at, _) in good.char_indices() {
            let _ = parse(&good[..at]);
            for strange in ["\"", "\\", ",", "=", " ", "\u{0}", "ß"] {
                let _ = parse(&format!("{}{strange}{}", &good[..at], &good[at..]));
            }
        }
    }
}
