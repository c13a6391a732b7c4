// SPDX-License-Identifier: Apache-2.0
//! gRPC's framing for messages that are known by their descriptors alone, so that every method of
//! every service can be called without a generated stub. It checks nothing of what is in a message;
//! `wire` has done so on the way out, and the node's own encoder on the way in.

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes any message; decodes answers of one type.
#[derive(Clone, Debug)]
pub(super) struct Dynamic {
    answer: MessageDescriptor,
}

impl Dynamic {
    /// For a method that answers with `answer`.
    pub(super) fn new(answer: MessageDescriptor) -> Self {
        Self { answer }
    }
}

impl Codec for Dynamic {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Encode;
    type Decoder = Self;

    fn encoder(&mut self) -> Encode {
        Encode
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

/// Writes a message as it is.
#[derive(Debug)]
pub(super) struct Encode;

impl Encoder for Encode {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message
            .encode(to)
            .map_err(|problem| Status::internal(format!("the request can't be encoded: {problem}")))
    }
}

impl Decoder for Dynamic {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.answer.clone(), from).map_err(|problem| {
            Status::internal(format!("the node's answer is malformed: {problem}"))
        })?;
        Ok(Some(message))
    }
}
