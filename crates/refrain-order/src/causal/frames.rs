//! The frames of a record, sorted by stream.

use std::ops::Range;

use crate::causal::codec::Head;
use crate::causal::event::LateResult;
use crate::error::OrderError;
use crate::frame::take_frame;

/// One rank's record: its bytes, and the positions of the blocks of each stream.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// The bodies of all frames.
    all: Vec<Range<usize>>,
    streams: Vec<StreamFrames>,
    /// Why reading stopped before the end of the bytes.
    truncated: Option<OrderError>,
}

/// The frames of one stream.
#[derive(Clone, Debug, Default)]
pub struct StreamFrames {
    /// The bodies of its blocks, in order.
    pub bodies: Vec<Range<usize>>,
    /// The late match results of all blocks.
    pub late_results: Vec<LateResult>,
    /// Whether it reaches `MPI_Finalize`.
    pub complete: bool,
    /// The number of completing calls, wildcard receives and other operations in it.
    pub calls: u64,
    /// See `calls`.
    pub receives: u64,
    /// See `calls`.
    pub named: u64,
}

/// The most streams; more come from damaged bytes.
const MOST_STREAMS: u32 = 1 << 16;

impl Frames {
    /// Reads frames up to the end, or up to the first that is incomplete (as a killed process leaves it) or damaged.
    /// [`Frames::truncated`] has the reason.
    pub fn read(bytes: Vec<u8>) -> Self {
        let mut frames = Self { bytes, ..Self::default() };
        let mut at = 0;
        while at < frames.bytes.len() {
            match frames.frame(at) {
                Ok(next) => at = next,
                Err(error) => {
                    frames.truncated = Some(error);
                    break;
                }
            }
        }
        frames
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn frame(&mut self, at: usize) -> Result<usize, OrderError> {
        let mut rest = self.bytes.get(at..).unwrap_or_default();
        let body = take_frame(&mut rest)?;
        let next = self.bytes.len() - rest.len();
        // The four bytes after the body are its checksum.
        let range = next - 4 - body.len()..next - 4;
        let head = Head::take(&mut &body[..])?;
        self.all.push(range.clone());
        if let Some(head) = head {
            if head.stream >= MOST_STREAMS {
                return Err(OrderError::OutOfRange("stream"));
            }
            let at = head.stream as usize;
            if self.streams.len() <= at {
                self.streams.resize_with(at + 1, StreamFrames::default);
            }
            let stream = &mut self.streams[at];
            stream.bodies.push(range);
            stream.late_results.extend(head.late_results);
            stream.complete = head.last;
            stream.calls = stream.calls.saturating_add(head.calls);
            stream.receives = stream.receives.saturating_add(head.receives);
            stream.named = stream.named.saturating_add(head.named);
        }
        Ok(next)
    }

    /// Why reading stopped before the end, if it did.
    pub fn truncated(&self) -> Option<OrderError> {
        self.truncated
    }

    /// All bytes, including those after damage.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes there are.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The streams.
    pub fn streams(&self) -> &[StreamFrames] {
        &self.streams
    }

    /// Drops late match results, for tests that show that they are needed.
    #[doc(hidden)]
    pub fn forget_late_results(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.late_results.clear());
    }

    /// A frame's body.
    pub fn body(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// The bodies of all frames.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(|range| self.body(range))
    }
}
