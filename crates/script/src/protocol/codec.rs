// SPDX-License-Identifier: Apache-2.0
//! Frames: four bytes of length (little endian), then a message in postcard's format. It bounds
//! what it takes: a frame by its length, a value by its depth and the number of its parts, so that
//! a hostile frame costs its sender and not its reader.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::value;

/// Bytes of a frame from the evaluator, its length not counted.
pub const MAX_FROM: usize = 16 << 20;

/// Bytes of a frame to the evaluator: a file or a module, and something around it.
pub const MAX_TO: usize = 72 << 20;

/// Bytes of a frame's length.
pub const HEADER: usize = 4;

/// Why a message can't be sent or taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// More bytes than may be sent.
    #[error("a message of {length} bytes is too long; {limit} are allowed")]
    TooLong {
        /// How many there are.
        length: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Bytes that are no message, or a value too deep or with too many parts.
    #[error("a message that doesn't follow the protocol: {0}")]
    Malformed(String),
}

/// A message as a frame, its length included.
///
/// # Errors
/// `TooLong`: beyond `limit`. `Malformed`: a message that can't be written.
pub fn encode<M: Serialize>(message: &M, limit: usize) -> Result<Vec<u8>, CodecError> {
    let frame = postcard::to_extend(message, vec![0; HEADER])
        .map_err(|e| CodecError::Malformed(e.to_string()))?;
    let mut frame = frame;
    let length = frame.len().saturating_sub(HEADER);
    let too_long = CodecError::TooLong { length, limit };
    if length > limit {
        return Err(too_long);
    }
    let header = u32::try_from(length).map_err(|_| too_long)?.to_le_bytes();
    for (to, from) in frame.iter_mut().zip(header) {
        *to = from;
    }
    Ok(frame)
}

/// The length that a frame's first bytes announce.
///
/// # Errors
/// `TooLong`: beyond `limit`.
pub fn length(header: [u8; HEADER], limit: usize) -> Result<usize, CodecError> {
    let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > limit {
        return Err(CodecError::TooLong { length, limit });
    }
    Ok(length)
}

/// The message of a frame's bytes, without its length.
///
/// # Errors
/// `Malformed`: not a message, or more bytes than it needs.
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, CodecError> {
    let malformed = |e: postcard::Error| CodecError::Malformed(e.to_string());
    let (message, rest) = value::counted(|| postcard::take_from_bytes(bytes)).map_err(malformed)?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(CodecError::Malformed(format!("{} bytes more", rest.len())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::FromEvaluator;
    use crate::value::{MAX_DEPTH, MAX_PARTS, Value};

    fn sent(item: Value) -> FromEvaluator {
        FromEvaluator::Send {
            call: 1,
            item: Some(item),
        }
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let item = Value::Object(vec![
            ("big".into(), Value::BigInt(i128::MIN)),
            ("nan".into(), Value::Number(f64::INFINITY)),
            ("bytes".into(), Value::Bytes(vec![0, 255])),
            ("unknown".into(), Value::Unknown("pid".into())),
        ]);
        let frame = encode(&sent(item.clone()), MAX_FROM).unwrap();
        let header = frame[..HEADER].try_into().unwrap();
        assert_eq!(length(header, MAX_FROM), Ok(frame.len() - HEADER));
        let FromEvaluator::Send {
            item: Some(back), ..
        } = decode(&frame[HEADER..]).unwrap()
        else {
            panic!("another message");
        };
        assert_eq!(back, item);
    }

    #[test]
    fn too_deep_and_too_many_are_refused() {
        let depth = usize::from(MAX_DEPTH);
        let deep = encode(&sent(nested(depth)), MAX_FROM).unwrap();
        assert!(decode::<FromEvaluator>(&deep[HEADER..]).is_ok());
        let deeper = encode(&sent(nested(depth + 1)), MAX_FROM).unwrap();
        assert!(decode::<FromEvaluator>(&deeper[HEADER..]).is_err());
        let many = Value::Array(vec![Value::Null; MAX_PARTS + 1]);
        let many = encode(&sent(many), MAX_FROM).unwrap();
        assert!(decode::<FromEvaluator>(&many[HEADER..]).is_err());
    }

    #[test]
    fn a_million_levels_of_hostile_bytes_end_no_process() {
        // An `Array` of one, a million times: written by hand, as ours would never be sent.
        let mut bytes = encode(&sent(Value::Null), MAX_FROM).unwrap();
        bytes.pop();
        bytes.extend([7u8, 1].repeat(1_000_000));
        assert!(decode::<FromEvaluator>(&bytes[HEADER..]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_are_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<FromEvaluator>(&bytes);
        }
    }
}
