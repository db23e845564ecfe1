//! The model of wildcard receives in posting order.

use crate::causal::event::{PostShape, ReceiveEvent};
use crate::causal::pool::Hint;
use crate::coding::coder::{Bit, Coder};
use crate::coding::number::Number;
use crate::coding::symbol::{Contexts, Followers, Steady, Symbol, WHILE, mix};
use crate::error::OrderError;
use crate::vocabulary::{Envelope, MatchResult};
use refrain_bytes::varint::{unzigzag, zigzag};

/// The model of all wildcard receives of a stream.
#[derive(Clone, Debug)]
pub struct ReceiveModel {
    followers: Followers,
    shape: Symbol,
    shapes: Vec<ShapeModel>,
    last: u64,
    before: u64,
    /// A hash of the last received message.
    digest: u64,
    /// The last receive, how often in a row it was the same, and the model of whether it is the same again.
    previous: ReceiveEvent,
    run: u32,
    same: Bit,
}

impl Default for ReceiveModel {
    fn default() -> Self {
        Self {
            followers: Followers::default(),
            shape: Symbol::default(),
            shapes: Vec::new(),
            last: 0,
            before: 0,
            digest: 0,
            previous: ReceiveEvent { shape: 0, match_result: None },
            run: 0,
            same: Bit::EVEN,
        }
    }
}

/// The model of the receives of one shape.
#[derive(Clone, Debug)]
struct ShapeModel {
    matched: Bit,
    otherwise: Number,
    source: Symbol,
    tag: Steady,
    /// The last three sources, and the last tag.
    sources: [u64; 3],
    last_tag: u64,
}

impl Default for ShapeModel {
    fn default() -> Self {
        Self {
            matched: Bit::EVEN,
            otherwise: Number::default(),
            source: Symbol::default(),
            tag: Steady::default(),
            sources: [0; 3],
            last_tag: 0,
        }
    }
}

impl ReceiveModel {
    /// Codes one receive. After many equal receives in a row, one bit says whether this one is equal too.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        shapes: &[PostShape],
        hint: Hint,
        event: ReceiveEvent,
    ) -> Result<ReceiveEvent, OrderError> {
        if self.run >= WHILE && coder.bit(&mut self.same, event == self.previous) {
            return Ok(self.previous);
        }
        let coded = self.code_anew(coder, shapes, hint, event)?;
        self.run = if coded == self.previous { self.run.saturating_add(1) } else { 0 };
        self.previous = coded;
        Ok(coded)
    }

    fn code_anew(
        &mut self,
        coder: &mut impl Coder,
        shapes: &[PostShape],
        hint: Hint,
        event: ReceiveEvent,
    ) -> Result<ReceiveEvent, OrderError> {
        let shape = if shapes.len() == 1 { 0 } else { self.number(coder, hint, event.shape) };
        if shape as usize >= shapes.len() {
            return Err(OrderError::OutOfRange("receive shape"));
        }
        if self.shapes.len() < shapes.len() {
            self.shapes.resize_with(shapes.len(), ShapeModel::default);
        }
        (self.before, self.last) = (self.last, shape.into());
        let Some(model) = self.shapes.get_mut(shape as usize) else {
            return Err(OrderError::OutOfRange("receive shape"));
        };
        let match_result =
            model.match_result((shape, hint), coder, &mut self.followers, event.match_result)?;
        if let Some(MatchResult::Matched(envelope)) = match_result {
            self.digest = mix(envelope.source as u64, envelope.tag as u64);
        }
        Ok(ReceiveEvent { shape, match_result })
    }

    /// Codes the shape of the next receive.
    fn number(&mut self, coder: &mut impl Coder, hint: Hint, shape: u32) -> u32 {
        let long = mix(mix(mix(1, self.last), self.before), self.digest);
        let long = mix(long, hint.slot.into());
        let (last, before) = (self.last, self.before);
        let short = || [mix(mix(2, last), before), mix(6, hint.slot.into())];
        let contexts = Contexts { long, short };
        self.shape.code(coder, &mut self.followers, contexts, shape)
    }
}

impl ShapeModel {
    fn match_result(
        &mut self,
        context: (u32, Hint),
        coder: &mut impl Coder,
        followers: &mut Followers,
        match_result: Option<MatchResult>,
    ) -> Result<Option<MatchResult>, OrderError> {
        let (envelope, otherwise) = match match_result {
            Some(MatchResult::Matched(envelope)) => (Some(envelope), 0),
            Some(MatchResult::Cancelled) => (None, 0),
            Some(MatchResult::Never) => (None, 1),
            None => (None, 2),
        };
        if coder.bit(&mut self.matched, envelope.is_some()) {
            let envelope = envelope.unwrap_or(Envelope { source: 0, tag: 0 });
            return Ok(Some(MatchResult::Matched(
                self.envelope(context, coder, followers, envelope),
            )));
        }
        match self.otherwise.code(coder, otherwise) {
            0 => Ok(Some(MatchResult::Cancelled)),
            1 => Ok(Some(MatchResult::Never)),
            2 => Ok(None),
            _ => Err(OrderError::Unknown("match result of a receive")),
        }
    }

    fn envelope(
        &mut self,
        (shape, hint): (u32, Hint),
        coder: &mut impl Coder,
        followers: &mut Followers,
        envelope: Envelope,
    ) -> Envelope {
        let [last, before, third] = self.sources;
        let by_shape = mix(3, shape.into());
        let long = mix(mix(mix(mix(by_shape, last), before), third), self.last_tag);
        let short = || {
            let waited = mix(by_shape, hint.waited.map_or(0, |waited| 1 + u64::from(waited)));
            [mix(waited, last), mix(waited, before)]
        };
        let contexts = Contexts { long, short };
        let source = self.source.code(coder, followers, contexts, envelope.source as u32);
        self.sources = [source.into(), last, before];

        let last_tag = self.last_tag;
        let contexts = || {
            let short = mix(mix(4, shape.into()), source.into());
            let long = mix(mix(mix(5, short), last_tag), last);
            Contexts { long, short: move || [short, mix(short, last_tag)] }
        };
        let tag = self.tag.code(coder, followers, contexts, envelope.tag as u32);
        self.last_tag = tag.into();
        Envelope { source: source as i32, tag: tag as i32 }
    }
}

/// The model of values in frames with older tags (see [`crate::causal::codec`]).
#[derive(Clone, Debug, Default)]
pub struct OldValueModel {
    which: Number,
    distance: Number,
    last: [u64; 16],
}

impl OldValueModel {
    /// Codes one value.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        (which, value): (u8, u64),
    ) -> Result<(u8, u64), OrderError> {
        let which = self.which.code(coder, which.into());
        let which = u8::try_from(which).map_err(|_| OrderError::OutOfRange("value"))?;
        let Some(last) = self.last.get_mut(usize::from(which & 15)) else {
            return Err(OrderError::OutOfRange("value"));
        };
        let distance = zigzag(value.wrapping_sub(*last) as i64);
        let distance = unzigzag(self.distance.code(coder, distance));
        *last = last.wrapping_add(distance as u64);
        Ok((which, *last))
    }
}
