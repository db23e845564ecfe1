//! Blocks as bytes.
//!
//! A record is a sequence of *frames*: a length, a body of that many bytes, and a checksum of the
//! body in four bytes. A killed process leaves at most one incomplete frame, and all
//! frames before it can be read. A body begins with a tag byte:
//!
//! ```text
//! 4  a stretch of a stream   stream, number, flags
//!                            new call shapes, new receive shapes, late match results, trailing polls (*)
//!                            how many calls, wildcard receives, values (*), other operations
//!                            how many receives were posted before one completed
//!                            calls:    bytes, coded bytes
//!                            receives: bytes, coded bytes
//!                            values:   bytes, coded bytes (*)
//!                            completions: bytes, coded bytes (*)
//! 3  the same, with values coded by an earlier model
//! 1  the same as 3, but all marked lists are present
//! 2  turns of threads        how many, coded bytes
//! 16 and above               are for other methods than this one
//! ```
//!
//! Lists marked by (*) are present if their flag is set. Completions come last, and versions that do not know
//! their flag ignore them. Numbers are LEB128. Late match results are not coded
//! adaptively, so that a replayer can gather those of all blocks before it decodes the first. The models keep learning
//! from block to block of a stream; a block with the flag *fresh* resets them, and does not need the blocks before it.
//!
//! A changed model decodes old bytes to wrong events without noticing. So a model that differs from that of a released
//! version needs a new tag.

use crate::causal::calls::CallModel;
use crate::causal::completions::{CompletionModel, Context};
use crate::causal::event::{
    Block, CallEvent, CallShape, Completion, LateResult, Picked, PostShape, ReceiveEvent, Trailing,
};
use crate::causal::pool::hints;
use crate::causal::receives::{OldValueModel, ReceiveModel};
use crate::coding::coder::{Decoder, Encoder};
use crate::coding::value::ValueModel;
use crate::error::OrderError;
use crate::frame::{TURNS, put_frame};
use crate::vocabulary::{Envelope, Kind, MatchResult};
use refrain_bytes::varint::{
    put, put_bytes, take, take_byte, take_bytes, take_slice, take_u32, unzigzag, zigzag,
};

/// The most items of a list in one block. Recorders seal sooner; larger counts come from damaged bytes.
const MOST: u64 = 1 << 18;
/// Completions may take this many bytes of a stream beyond their share of its blocks.
const COMPLETIONS_EXCESS: usize = 4096;
const FULL_STRETCH: u8 = 1;
const OLD_VALUES_STRETCH: u8 = 3;
const STRETCH: u8 = 4;
const FRESH: u8 = 1;
const LAST: u8 = 2;
/// Flags of the lists that are not empty.
mod some {
    pub const CALL_SHAPES: u8 = 4;
    pub const POST_SHAPES: u8 = 8;
    pub const LATE_RESULTS: u8 = 16;
    pub const TRAILING: u8 = 32;
    pub const VALUES: u8 = 64;
    /// Of frames of any tag but the first, which has everything but these.
    pub const COMPLETIONS: u8 = 128;
}

/// The part of a stretch that can be read without the models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The thread.
    pub stream: u32,
    /// The index of the block in its stream.
    pub number: u64,
    /// Whether models and shapes are reset before this block.
    pub fresh: bool,
    /// Whether the stream ended here, at `MPI_Finalize`.
    pub last: bool,
    call_shapes: Vec<CallShape>,
    post_shapes: Vec<PostShape>,
    /// Match results of earlier operations.
    pub late_results: Vec<LateResult>,
    trailing: Vec<Trailing>,
    /// The number of completing calls.
    pub calls: u64,
    /// The number of wildcard receives.
    pub receives: u64,
    /// The number of clock values and random numbers.
    pub values: u64,
    has_values: bool,
    has_old_values: bool,
    has_completions: bool,
    /// The number of other posted operations.
    pub named: u64,
    behind: u32,
}

impl Head {
    /// Reads the head of a frame's body, and leaves the rest. `None` if the frame is
    /// no stretch.
    pub fn take(body: &mut &[u8]) -> Result<Option<Head>, OrderError> {
        let tag = take_byte(body)?;
        let has_all = match tag {
            STRETCH | OLD_VALUES_STRETCH => false,
            FULL_STRETCH => true,
            TURNS => return Ok(None),
            _ => return Err(OrderError::Unknown("frame")),
        };
        let stream = take_u32(body, "stream")?;
        let number = take(body)?;
        let flags = take_byte(body)?;
        let has = |what: u8| has_all || flags & what != 0;
        let call_shapes = take_list(body, has(some::CALL_SHAPES), take_call_shape)?;
        let post_shapes = take_list(body, has(some::POST_SHAPES), take_post_shape)?;
        let late_results = take_list(body, has(some::LATE_RESULTS), take_late_result)?;
        let trailing = take_list(body, has(some::TRAILING), |body| {
            Ok(Trailing { shape: take_u32(body, "shape")?, polls: take(body)? })
        })?;
        let [calls, receives] = [take_count(body)?, take_count(body)?];
        let values = if has(some::VALUES) { take_count(body)? } else { 0 };
        let named = take(body)?;
        let behind = take_u32(body, "pool")?;
        let (fresh, last) = (flags & FRESH != 0, flags & LAST != 0);
        Ok(Some(Head {
            stream,
            number,
            fresh,
            last,
            call_shapes,
            post_shapes,
            late_results,
            trailing,
            calls,
            receives,
            values,
            has_values: has(some::VALUES),
            has_old_values: tag != STRETCH,
            has_completions: tag == STRETCH && flags & some::COMPLETIONS != 0,
            named,
            behind,
        }))
    }
}

fn take_count(input: &mut &[u8]) -> Result<u64, OrderError> {
    let count = take(input)?;
    if count > MOST { Err(OrderError::OutOfRange("size of a block")) } else { Ok(count) }
}

fn take_list<T>(
    input: &mut &[u8],
    is_there: bool,
    item: impl Fn(&mut &[u8]) -> Result<T, OrderError>,
) -> Result<Vec<T>, OrderError> {
    // Every item takes at least a byte, which bounds the length of the list.
    let count = if is_there { take_count(input)? } else { 0 };
    (0..count).map(|_| item(input)).collect()
}

fn take_site(input: &mut &[u8]) -> Result<u64, OrderError> {
    let bytes = take_slice(input, 8)?;
    Ok(bytes.iter().rev().fold(0, |site, byte| site << 8 | u64::from(*byte)))
}

fn take_call_shape(input: &mut &[u8]) -> Result<CallShape, OrderError> {
    Ok(CallShape { kind: Kind::from_number(take_byte(input)?)?, site: take_site(input)? })
}

fn take_post_shape(input: &mut &[u8]) -> Result<PostShape, OrderError> {
    let wild = take_byte(input)?;
    let (any_source, any_tag) = (wild & 1 != 0, wild & 2 != 0);
    let communicator = take_u32(input, "communicator")?;
    Ok(PostShape { site: take_site(input)?, communicator, any_source, any_tag })
}

fn take_late_result(input: &mut &[u8]) -> Result<LateResult, OrderError> {
    let tag = take_byte(input)?;
    let number = take(input)?;
    let match_result = match tag >> 1 {
        0 => {
            let mut signed = || -> Result<i32, OrderError> {
                let value = unzigzag(take(input)?);
                i32::try_from(value).map_err(|_| OrderError::OutOfRange("envelope"))
            };
            MatchResult::Matched(Envelope { source: signed()?, tag: signed()? })
        }
        1 => MatchResult::Cancelled,
        2 => MatchResult::Never,
        _ => return Err(OrderError::Unknown("match result")),
    };
    Ok(LateResult { wild: tag & 1 != 0, number, match_result })
}

fn put_late_result(out: &mut Vec<u8>, late_result: &LateResult) {
    let tag = match late_result.match_result {
        MatchResult::Matched(_) => 0,
        MatchResult::Cancelled => 1,
        MatchResult::Never => 2,
    };
    out.push(tag << 1 | u8::from(late_result.wild));
    put(out, late_result.number);
    if let MatchResult::Matched(envelope) = late_result.match_result {
        put(out, zigzag(envelope.source.into()));
        put(out, zigzag(envelope.tag.into()));
    }
}

/// Codes the blocks of one stream, one after the other, in one direction.
#[derive(Debug, Default)]
pub struct Codec {
    /// Every call shape of the stream so far.
    pub call_shapes: Vec<CallShape>,
    /// Every receive shape of the stream so far.
    pub post_shapes: Vec<PostShape>,
    calls: CallModel,
    receives: ReceiveModel,
    values: ValueModel,
    old_values: OldValueModel,
    completions: CompletionModel,
    /// Wildcard receives in the blocks so far.
    receives_before: u64,
    /// Bytes of coded values so far.
    value_bytes: u64,
    /// Bytes of completions so far that were more than their share of a block.
    completions_excess: usize,
    blocks: u64,
    begun: bool,
}

impl Codec {
    /// For a stream that continues after `blocks` blocks with `receives` wildcard receives, whose models this
    /// codec does not have.
    pub fn resumed(blocks: u64, receives: u64) -> Self {
        let completions = CompletionModel::after(receives);
        Self { blocks, receives_before: receives, completions, ..Self::default() }
    }

    /// How many bytes the values took that were coded or decoded so far.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Appends a block as a frame.
    pub fn encode(&mut self, stream: u32, block: &Block, last: bool, out: &mut Vec<u8>) {
        let fresh = !std::mem::replace(&mut self.begun, true);
        self.call_shapes.extend_from_slice(&block.call_shapes);
        self.post_shapes.extend_from_slice(&block.post_shapes);
        let mut body = vec![STRETCH];
        put(&mut body, stream.into());
        put(&mut body, self.blocks);
        let flags_at = body.len();
        body.push((u8::from(last) * LAST) | (u8::from(fresh) * FRESH) | somes(block));
        self.blocks += 1;
        put_heads(&mut body, block);
        let coded = self.encode_calls(block);
        put_bytes(&mut body, &coded);
        let mut encoder = Encoder::default();
        let mut hints = hints(block, block.receives.len()).into_iter();
        for event in &block.receives {
            let hint = hints.next().unwrap_or_default();
            // Encoding cannot fail: shapes are those of the block.
            let _ = self.receives.code(&mut encoder, &self.post_shapes, hint, *event);
        }
        put_bytes(&mut body, &encoder.finish());
        if !block.values.is_empty() {
            let mut encoder = Encoder::default();
            for value in &block.values {
                let _ = self.values.code(&mut encoder, *value);
            }
            let coded = encoder.finish();
            self.value_bytes += coded.len() as u64;
            put_bytes(&mut body, &coded);
        }
        if let Some(coded) = self.encode_completions(stream, block, body.len())
            && let Some(flags) = body.get_mut(flags_at)
        {
            *flags |= some::COMPLETIONS;
            put_bytes(&mut body, &coded);
        }
        put_frame(out, &body);
    }

    /// Codes completions, unless there are none or they would take too much beside `others` bytes.
    fn encode_completions(&mut self, stream: u32, block: &Block, others: usize) -> Option<Vec<u8>> {
        let first_receive = self.receives_before;
        self.receives_before += block.receives.len() as u64;
        let coded = (!block.completions.is_empty()).then(|| {
            let mut encoder = Encoder::default();
            let context = Context {
                stream,
                first_receive,
                block,
                call_shapes: &self.call_shapes,
                post_shapes: &self.post_shapes,
            };
            let coded = self.completions.code(&mut encoder, context, &block.completions);
            coded.ok().map(|_| encoder.finish())
        });
        let coded = coded.flatten().filter(|coded| {
            // A small record has them in any case.
            let excess = coded.len().saturating_sub(others / 4 + 16);
            let is_small = self.completions_excess + excess <= COMPLETIONS_EXCESS;
            self.completions_excess += if is_small { excess } else { 0 };
            is_small
        });
        if coded.is_none() {
            self.completions = CompletionModel::after(self.receives_before);
        }
        coded
    }

    fn encode_calls(&mut self, block: &Block) -> Vec<u8> {
        let mut encoder = Encoder::default();
        let mut given = &block.picks[..];
        let mut coded = Vec::new();
        for event in &block.calls {
            let several = if let Picked::These(several) = event.picked { several } else { 0 };
            let (own, rest) = given.split_at_checked(several as usize).unwrap_or((given, &[]));
            given = rest;
            coded.clear();
            let _ = self.calls.code(&mut encoder, &self.call_shapes, *event, own, &mut coded);
        }
        encoder.finish()
    }

    /// Reads a frame's body that holds a stretch of this codec's stream.
    pub fn decode(&mut self, body: &[u8]) -> Result<(Head, Block), OrderError> {
        let input = &mut &body[..];
        let head = Head::take(input)?.ok_or(OrderError::Unknown("frame"))?;
        if head.fresh {
            let value_bytes = self.value_bytes;
            *self = Self { value_bytes, ..Self::resumed(head.number, self.receives_before) };
        }
        if head.number != self.blocks {
            return Err(OrderError::Missing);
        }
        self.blocks += 1;
        self.call_shapes.extend_from_slice(&head.call_shapes);
        self.post_shapes.extend_from_slice(&head.post_shapes);
        let mut block = Block {
            call_shapes: head.call_shapes.clone(),
            post_shapes: head.post_shapes.clone(),
            late_results: head.late_results.clone(),
            trailing: head.trailing.clone(),
            named: head.named,
            behind: head.behind,
            ..Block::default()
        };
        if block.trailing.iter().any(|t| t.shape as usize >= self.call_shapes.len()) {
            return Err(OrderError::OutOfRange("call shape"));
        }
        self.decode_calls(head.calls, take_bytes(input)?, &mut block)?;
        let mut decoder = Decoder::new(take_bytes(input)?);
        // Reading the head has refused larger numbers than a block can hold.
        let mut hints = hints(&block, head.receives as usize).into_iter();
        for _ in 0..head.receives {
            let hint = hints.next().unwrap_or_default();
            let blank = ReceiveEvent { shape: 0, match_result: None };
            let event = self.receives.code(&mut decoder, &self.post_shapes, hint, blank)?;
            block.receives.push(event);
        }
        if head.has_values {
            let coded = take_bytes(input)?;
            self.value_bytes += coded.len() as u64;
            let mut decoder = Decoder::new(coded);
            for _ in 0..head.values {
                block.values.push(match head.has_old_values {
                    true => self.old_values.code(&mut decoder, (0, 0))?,
                    false => self.values.code(&mut decoder, (0, 0))?,
                });
            }
        }
        let coded = if head.has_completions { Some(take_bytes(input)?) } else { None };
        block.completions = self.decode_completions(head.stream, coded, &block)?;
        Ok((head, block))
    }

    fn decode_completions(
        &mut self,
        stream: u32,
        coded: Option<&[u8]>,
        block: &Block,
    ) -> Result<Vec<Completion>, OrderError> {
        let first_receive = self.receives_before;
        self.receives_before = first_receive.saturating_add(block.receives.len() as u64);
        let Some(coded) = coded else {
            self.completions = CompletionModel::after(self.receives_before);
            return Ok(Vec::new());
        };
        let context = Context {
            stream,
            first_receive,
            block,
            call_shapes: &self.call_shapes,
            post_shapes: &self.post_shapes,
        };
        self.completions.code(&mut Decoder::new(coded), context, &[])
    }

    fn decode_calls(
        &mut self,
        count: u64,
        coded: &[u8],
        block: &mut Block,
    ) -> Result<(), OrderError> {
        let mut decoder = Decoder::new(coded);
        let blank = CallEvent::default();
        for _ in 0..count {
            let picks = &mut block.picks;
            let event = self.calls.code(&mut decoder, &self.call_shapes, blank, &[], picks)?;
            block.calls.push(event);
        }
        Ok(())
    }
}

/// The flags of a block.
fn somes(block: &Block) -> u8 {
    let flag = |is_empty: bool, flag: u8| if is_empty { 0 } else { flag };
    flag(block.call_shapes.is_empty(), some::CALL_SHAPES)
        | flag(block.post_shapes.is_empty(), some::POST_SHAPES)
        | flag(block.late_results.is_empty(), some::LATE_RESULTS)
        | flag(block.trailing.is_empty(), some::TRAILING)
        | flag(block.values.is_empty(), some::VALUES)
}

/// Puts a count, unless it is zero.
fn put_some(body: &mut Vec<u8>, count: usize) {
    if count > 0 {
        put(body, count as u64);
    }
}

fn put_heads(body: &mut Vec<u8>, block: &Block) {
    put_some(body, block.call_shapes.len());
    for shape in &block.call_shapes {
        body.push(shape.kind as u8);
        body.extend_from_slice(&shape.site.to_le_bytes());
    }
    put_some(body, block.post_shapes.len());
    for shape in &block.post_shapes {
        body.push(u8::from(shape.any_source) | u8::from(shape.any_tag) << 1);
        put(body, shape.communicator.into());
        body.extend_from_slice(&shape.site.to_le_bytes());
    }
    put_some(body, block.late_results.len());
    block.late_results.iter().for_each(|late_result| put_late_result(body, late_result));
    put_some(body, block.trailing.len());
    for trailing in &block.trailing {
        put(body, trailing.shape.into());
        put(body, trailing.polls);
    }
    put(body, block.calls.len() as u64);
    put(body, block.receives.len() as u64);
    put_some(body, block.values.len());
    put(body, block.named);
    put(body, block.behind.into());
}
