//! Reading a record without replaying it.

use crate::causal::codec::Codec;
use crate::causal::event::{Block, CallEvent, CallShape, Picked, PostShape, ReceiveEvent};
use crate::causal::frames::Frames;
use crate::divergence::Moment;
use crate::error::OrderError;
use crate::vocabulary::MatchResult;
use refrain_bytes::table::Map;

/// Reads one stream, block by block. Late match results are filled in.
#[derive(Debug)]
pub struct Reader<'a> {
    frames: &'a Frames,
    stream: usize,
    next: usize,
    codec: Codec,
    late: Map<u64, MatchResult>,
    calls: u64,
    receives: u64,
}

/// A stretch of a stream.
#[derive(Debug)]
pub struct Stretch {
    /// Its content. Every receive has a match result.
    pub block: Block,
    /// The number of calls before it.
    pub first_call: u64,
    /// The number of wildcard receives before it.
    pub first_receive: u64,
}

impl Stretch {
    /// The calls, each with the indices it completed.
    pub fn calls(&self) -> impl Iterator<Item = (&CallEvent, &[u32])> {
        let mut rest = &self.block.picks[..];
        self.block.calls.iter().map(move |call| {
            let several = if let Picked::These(several) = call.picked { several } else { 0 };
            let (indices, after) = rest.split_at_checked(several as usize).unwrap_or((rest, &[]));
            rest = after;
            (call, indices)
        })
    }
}

impl<'a> Reader<'a> {
    /// Reads one stream of a rank's record.
    pub fn new(frames: &'a Frames, stream: usize) -> Self {
        let late_results =
            frames.streams().get(stream).map_or(&[][..], |stream| &stream.late_results[..]);
        let wild = late_results.iter().filter(|late_result| late_result.wild);
        let late = wild.map(|late_result| (late_result.number, late_result.match_result)).collect();
        Self { frames, stream, next: 0, codec: Codec::default(), late, calls: 0, receives: 0 }
    }

    /// The next stretch; `None` after the last.
    pub fn next_stretch(&mut self) -> Result<Option<Stretch>, OrderError> {
        let frames = self.frames.streams().get(self.stream);
        let Some(body) = frames.and_then(|frames| frames.bodies.get(self.next)) else {
            return Ok(None);
        };
        let (_, mut block) = self.codec.decode(self.frames.body(body))?;
        self.next += 1;
        let stretch = (self.calls, self.receives);
        for (number, receive) in (self.receives..).zip(&mut block.receives) {
            let late = || self.late.get(&number).copied().unwrap_or(MatchResult::Never);
            receive.match_result = Some(receive.match_result.unwrap_or_else(late));
        }
        self.calls += block.calls.len() as u64;
        self.receives += block.receives.len() as u64;
        let (first_call, first_receive) = stretch;
        Ok(Some(Stretch { block, first_call, first_receive }))
    }

    /// The number of bytes of the values that were read so far.
    pub fn value_bytes(&self) -> u64 {
        self.codec.value_bytes()
    }

    /// The shape of a call that was read.
    pub fn call_shape(&self, call: &CallEvent) -> Result<CallShape, OrderError> {
        let shape = self.codec.call_shapes.get(call.shape as usize);
        shape.copied().ok_or(OrderError::OutOfRange("call shape"))
    }

    /// The shape of a receive that was read.
    pub fn post_shape(&self, receive: &ReceiveEvent) -> Result<PostShape, OrderError> {
        let shape = self.codec.post_shapes.get(receive.shape as usize);
        shape.copied().ok_or(OrderError::OutOfRange("receive shape"))
    }

    /// All calls of the stream, or all its wildcard receives.
    pub fn moments(mut self, which: Which) -> Result<Vec<Moment>, OrderError> {
        let mut moments = Vec::new();
        while let Some(stretch) = self.next_stretch()? {
            self.append(&stretch, which, &mut moments)?;
        }
        Ok(moments)
    }

    /// Appends a stretch's calls or receives.
    pub fn append(
        &self,
        stretch: &Stretch,
        which: Which,
        moments: &mut Vec<Moment>,
    ) -> Result<(), OrderError> {
        match which {
            Which::Calls => {
                for (position, (call, picks)) in (stretch.first_call..).zip(stretch.calls()) {
                    moments.push(Moment::called(position, self.call_shape(call)?, *call, picks));
                }
            }
            Which::Receives => {
                for (position, receive) in (stretch.first_receive..).zip(&stretch.block.receives) {
                    let shape = self.post_shape(receive)?;
                    moments.push(Moment::received(position, shape, receive.match_result));
                }
            }
        }
        Ok(())
    }
}

/// One of the two sequences in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Successful completing calls.
    Calls,
    /// Wildcard receives, in posting order.
    Receives,
}
