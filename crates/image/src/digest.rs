// SPDX-License-Identifier: Apache-2.0
//! Digests: parsed, computed and verified, as the OCI image specification's `descriptor.md` says.
//! SHA-256 and SHA-512, the two that it registers and that registries use; others are refused by
//! name. Knows no files.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::error::{ImageError, Result};

/// A hash function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Algorithm {
    /// 32 bytes.
    Sha256,
    /// 64 bytes.
    Sha512,
}

impl Algorithm {
    /// Every one, in the order of their folders.
    pub const ALL: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Sha512];

    /// The name before the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// How many hexadecimal digits its digests have.
    const fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// `sha256:…`: what content is addressed by.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: Box<str>,
}

impl Digest {
    /// The SHA-256 of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Checks the two parts of a digest.
    ///
    /// # Errors
    /// [`ImageError::Malformed`] where `hex` isn't as many lower-case digits as `algorithm` makes.
    pub fn new(algorithm: Algorithm, hex: &str) -> Result<Self> {
        let good = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != algorithm.digits() || !hex.bytes().all(good) {
            let digits = algorithm.digits();
            let problem = format!("{} takes {digits} lower-case digits", algorithm.as_str());
            return Err(ImageError::malformed("digest", hex, problem));
        }
        Ok(Self {
            algorithm,
            hex: hex.into(),
        })
    }

    /// Which function made it.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The part behind the colon: lower-case hexadecimal digits, safe as a file name.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// One name for a file: `sha256-…`.
    pub fn file_name(&self) -> String {
        format!("{}-{}", self.algorithm.as_str(), self.hex)
    }

    /// Reads what [`Digest::file_name`] wrote; `None` for any other name.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (algorithm, hex) = name.split_once('-')?;
        format!("{algorithm}:{hex}").parse().ok()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |problem: &str| ImageError::malformed("digest", text, problem);
        let (name, hex) = text
            .split_once(':')
            .ok_or_else(|| wrong("expected sha256: and 64 hexadecimal digits"))?;
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str() == name)
            .ok_or_else(|| wrong("only sha256 and sha512 are known"))?;
        Self::new(algorithm, hex)
    }
}

impl TryFrom<String> for Digest {
    type Error = ImageError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Computes a digest, piece by piece.
#[derive(Clone, Debug)]
pub struct Hasher(State);

#[derive(Clone, Debug)]
enum State {
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
}

impl Hasher {
    /// With nothing in it.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => State::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => State::Sha512(sha2::Sha512::new()),
        })
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    /// The digest of all that it took.
    pub fn finish(self) -> Digest {
        let (algorithm, hex) = match self.0 {
            State::Sha256(state) => (Algorithm::Sha256, hex(&state.finalize())),
            State::Sha512(state) => (Algorithm::Sha512, hex(&state.finalize())),
        };
        Digest {
            algorithm,
            hex: hex.into_boxed_str(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hashes what is written to it, and refuses more than the descriptor promised.
#[derive(Clone, Debug)]
pub struct Verifier {
    digest: Digest,
    size: u64,
    taken: u64,
    hasher: Hasher,
}

impl Verifier {
    /// Expects `size` bytes of this digest.
    pub fn new(digest: &Digest, size: u64) -> Self {
        Self {
            digest: digest.clone(),
            size,
            taken: 0,
            hasher: Hasher::new(digest.algorithm()),
        }
    }

    /// How many bytes it has taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`ImageError::WrongSize`] where that makes more than were promised; then none are taken.
    pub fn update(&mut self, bytes: &[u8]) -> Result<()> {
        let taken = self.taken.saturating_add(bytes.len() as u64);
        if taken > self.size {
            return Err(self.wrong_size(taken));
        }
        self.hasher.update(bytes);
        self.taken = taken;
        Ok(())
    }

    /// Whether all was taken and is what the digest names.
    ///
    /// # Errors
    /// [`ImageError::WrongSize`], [`ImageError::WrongDigest`].
    pub fn finish(self) -> Result<()> {
        if self.taken != self.size {
            return Err(self.wrong_size(self.taken));
        }
        let found = self.hasher.finish();
        if found != self.digest {
            let expected = self.digest;
            return Err(ImageError::WrongDigest { expected, found });
        }
        Ok(())
    }

    fn wrong_size(&self, found: u64) -> ImageError {
        ImageError::WrongSize {
            digest: self.digest.clone(),
            expected: self.size,
            found,
        }
    }
}

impl io::Write for Verifier {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_written_as_it_is_read() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse::<Digest>().unwrap(), Digest::of(b""));
        let name = Digest::of(b"").file_name();
        assert_eq!(Digest::from_file_name(&name), Some(Digest::of(b"")));
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let long = EMPTY.replace("sha256", "sha512");
        let upper = EMPTY.to_uppercase().replace("SHA256", "sha256");
        let other = EMPTY.replace("sha256", "md5");
        let path = "sha256:../../../../etc/passwd".to_owned();
        for text in [
            long,
            upper,
            other,
            path,
            String::new(),
            "sha256:".to_owned(),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_verifier_takes_what_was_promised_and_no_more() {
        let digest = Digest::of(b"hello");
        let mut fair = Verifier::new(&digest, 5);
        fair.update(b"hel").unwrap();
        fair.update(b"lo").unwrap();
        fair.finish().unwrap();

        let mut long = Verifier::new(&digest, 4);
        assert!(matches!(
            long.update(b"hello"),
            Err(ImageError::WrongSize { found: 5, .. })
        ));
        let short = Verifier::new(&digest, 5);
        assert!(matches!(
            short.finish(),
            Err(ImageError::WrongSize { found: 0, .. })
        ));
        let mut other = Verifier::new(&digest, 5);
        other.update(b"hullo").unwrap();
        assert!(matches!(
            other.finish(),
            Err(ImageError::WrongDigest { .. })
        ));
    }
}
