// SPDX-License-Identifier: Apache-2.0
//! How messages are put on the wire: prost's encoding, with buffers that begin small. Named by the
//! build script, used by the generated stubs alone.
//!
//! The usual codec allocates 8 KiB for every call and keeps them as long as the call goes on. Most
//! answers are a few hundred bytes, and a node has thousands of streams that wait for a line of a
//! log or a change: theirs would be memory of the daemon that no tenant has asked for.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// What a call's buffers begin with, in bytes; they grow with the messages.
const START: usize = 1024;
/// So much is put together of messages that are ready, in bytes, before it is sent: tonic's own.
const BATCH: usize = 32 * 1024;

/// The codec of one method.
#[derive(Debug, Clone)]
pub struct SmallCodec<T, U> {
    of: PhantomData<(T, U)>,
}

impl<T, U> Default for SmallCodec<T, U> {
    fn default() -> Self {
        Self { of: PhantomData }
    }
}

impl<T, U> Codec for SmallCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(START, BATCH))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(START, BATCH))
    }
}
