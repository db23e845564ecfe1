//! A codec for small sections: context mixing.
//!
//! Most traces are a kilobyte or two, of which zstd's tables and repeat offsets would be a large part. Here each bit is
//! predicted from the bytes before it by several models, whose predictions are mixed by weights that are learnt
//! (`refrain_bytes::logistic`), and coded by a range coder. Before the first byte, the models learn from a sample of
//! typical sections ([`PRIMER`]). That takes a few microseconds a byte in both directions, so larger sections use zstd.
//!
//! Models, sample and constants belong to the format: a change needs a new codec.

use refrain_bytes::logistic::{chance_of, odds_of};
use refrain_bytes::range::{Coder, Decoder, Encoder};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// The largest section.
pub(crate) const MOST: usize = 1 << 17;

/// The sample that the models learn from: sections `structure` and `meta` of a few small traces.
static PRIMER: &[u8] = include_bytes!("primer.bin");

/// Contexts: the last 0 to 4 bytes; pairs of bytes with others between, since numbers of signatures are in columns;
/// the upper halves of the last four.
const CONTEXTS: usize = 9;
/// Those that are longer and longer.
const ORDERS: usize = 5;
/// Two inputs of each context, and one of the match.
const INPUTS: usize = 2 * CONTEXTS + 1;
/// The number of slots of each context, up to [`SMALL`] bytes and above.
const FEW_SLOTS: usize = 1 << 17;
const MANY_SLOTS: usize = 1 << 20;
const SMALL: usize = 1 << 13;
/// After so many bits, the weight of a new one stays the same.
const MEMORY: u8 = 12;
const MATCH_BITS: u32 = 16;
/// Slots that are used together.
const LINE: usize = 16;
/// The first weight of each input, in 65536ths.
const WEIGHT: i32 = 12_000;
/// Weights stay within this.
const MOST_WEIGHT: i32 = 1 << 20;
/// The learning rate of weights.
const RATE: i32 = 82;

/// The odds that the byte after the same bytes as before comes again, by the number of these bytes.
const AGAIN: [i32; 17] =
    [0, 131, 159, 187, 217, 249, 281, 317, 355, 396, 444, 497, 560, 638, 747, 947, 996];

/// How much the n-th bit weighs, in 65536ths.
static WEIGHTS: [i32; MEMORY as usize + 1] = {
    let mut table = [0; MEMORY as usize + 1];
    let mut n = 0;
    while n <= MEMORY as usize {
        table[n] = 655_360 / (10 * n as i32 + 16);
        n += 1;
    }
    table
};

/// The probability of a bit in a context.
#[derive(Clone, Copy)]
struct Slot {
    chance: u16,
    seen: u8,
}

struct Model {
    slots: Vec<Slot>,
    /// By the longest context that was seen before.
    weights: [[i32; INPUTS]; ORDERS],
    /// All bytes so far.
    bytes: Vec<u8>,
    /// Where the three last bytes were before.
    places: Vec<u32>,
    /// Where the byte is that may come again, and how many bytes before it are the same.
    place: usize,
    same: usize,
    changes: Changes,
}

/// What a model has learnt from one section, so that it can forget it.
#[derive(Default)]
struct Changes {
    /// For each line of slots whether it is in `lines`. Empty while changes are not noted.
    is_noted: Vec<bool>,
    /// Lines of slots as they were.
    lines: Vec<(usize, [Slot; LINE])>,
    /// Places of the match as they were.
    places: Vec<(usize, u32)>,
}

fn hash(value: u32, salt: u32) -> u32 {
    let mut x = value.wrapping_mul(0x9e37_79b1) ^ salt.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 15;
    x = x.wrapping_mul(0x2c1b_3c6d);
    x ^ x >> 12
}

impl Model {
    /// A model that has learnt the sample, with so many slots for each context.
    fn primed(slots: usize) -> Model {
        let mut model = Model::new(slots);
        for byte in PRIMER {
            model.code(&mut Nowhere, *byte);
        }
        model
    }

    fn new(slots: usize) -> Model {
        Model {
            slots: vec![Slot { chance: 1 << 15, seen: 0 }; CONTEXTS * slots],
            weights: [[WEIGHT; INPUTS]; ORDERS],
            bytes: Vec::new(),
            places: vec![0; 1 << MATCH_BITS],
            place: 0,
            same: 0,
            changes: Changes::default(),
        }
    }

    /// The last byte but `back`.
    fn last(&self, back: usize) -> u32 {
        let at = self.bytes.len().checked_sub(back + 1);
        at.and_then(|at| self.bytes.get(at)).map_or(0, |byte| u32::from(*byte))
    }

    fn code(&mut self, coder: &mut impl Coder, given: u8) -> u8 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|back| self.last(back));
        let contexts: [u32; CONTEXTS] = [
            0,
            a + 256,
            hash(a | b << 8, 2),
            hash(a | b << 8 | c << 16, 3),
            hash(a | b << 8 | c << 16 | d << 24, 4),
            hash(b | c << 8, 5),
            hash(a >> 4 | (b >> 4) << 4 | (c >> 4) << 8 | (d >> 4) << 12, 6),
            hash(a | c << 8, 8),
            hash(b | d << 8, 9),
        ];
        let mut node = 1u32;
        for half in [4, 0] {
            let places = self.places_of(&contexts, node);
            self.note_lines(&places);
            let mut within = 1;
            for bit in (half..half + 4).rev() {
                let places = places.map(|place| place + within);
                let answer = self.bit(coder, places, node, bit, given >> bit & 1 == 1);
                node = node << 1 | u32::from(answer);
                within = within << 1 | usize::from(answer);
            }
        }
        self.learn_byte(node as u8);
        node as u8
    }

    /// Where the slots of half a byte begin in each context: beside each other, in a line of the processor's cache.
    fn places_of(&self, contexts: &[u32; CONTEXTS], node: u32) -> [usize; CONTEXTS] {
        let slots = self.slots.len() / CONTEXTS;
        std::array::from_fn(|number| {
            let context = contexts[number].wrapping_mul(1_000_003).wrapping_add(node);
            let slot = hash(context, 77 * number as u32 + 1) as usize & (slots - 1) & !(LINE - 1);
            number * slots + slot
        })
    }

    /// Notes how the lines of slots that begin at these places are before they change.
    fn note_lines(&mut self, places: &[usize; CONTEXTS]) {
        for place in places {
            let Some(is_noted) = self.changes.is_noted.get_mut(place / LINE) else { return };
            if !std::mem::replace(is_noted, true)
                && let Some(line) = self.slots[*place..].first_chunk()
            {
                self.changes.lines.push((*place, *line));
            }
        }
    }

    fn bit(
        &mut self,
        coder: &mut impl Coder,
        places: [usize; CONTEXTS],
        node: u32,
        bit: u32,
        given: bool,
    ) -> bool {
        let mut inputs = [0i32; INPUTS];
        let mut longest = 0;
        for (number, place) in places.into_iter().enumerate() {
            let slot = self.slots[place];
            if slot.seen > 0 {
                inputs[2 * number] = odds_of(slot.chance >> 4);
                inputs[2 * number + 1] = (i32::from(slot.chance) - (1 << 15)) >> 7;
                if number < ORDERS {
                    longest = number;
                }
            }
        }
        if self.same > 0 {
            let expected = u32::from(self.bytes[self.place]) | 256;
            if expected >> (bit + 1) == node {
                let odds = AGAIN[self.same.min(AGAIN.len() - 1)];
                inputs[INPUTS - 1] = if expected >> bit & 1 == 1 { odds } else { -odds };
            }
        }
        let weights = &mut self.weights[longest];
        let sum: i64 =
            inputs.iter().zip(&*weights).map(|(x, w)| i64::from(*x) * i64::from(*w)).sum();
        let chance = chance_of((sum >> 16).clamp(-4096, 4096) as i32);
        let answer = coder.coin((chance << 4) as u16, given);
        let error = (i32::from(answer) << 12) - chance;
        for (weight, input) in weights.iter_mut().zip(inputs) {
            let step = (input * error * RATE + (1 << 15)) >> 16;
            *weight = (*weight + step).clamp(-MOST_WEIGHT, MOST_WEIGHT);
        }
        for place in places {
            let slot = &mut self.slots[place];
            let target = if answer { 65_535 } else { 0 };
            let step = ((target - i32::from(slot.chance)) as i64
                * i64::from(WEIGHTS[usize::from(slot.seen)]))
                >> 16;
            slot.chance = (i32::from(slot.chance) + step as i32).clamp(0, 65_535) as u16;
            slot.seen += u8::from(slot.seen < MEMORY);
        }
        answer
    }

    /// Looks for the bytes before the next one.
    fn learn_byte(&mut self, byte: u8) {
        match self.same > 0 && self.bytes[self.place] == byte {
            true => (self.place, self.same) = (self.place + 1, self.same + 1),
            false => self.same = 0,
        }
        self.bytes.push(byte);
        if self.bytes.len() < 3 {
            return;
        }
        let key = hash(self.last(0) | self.last(1) << 8 | self.last(2) << 16, 9) as usize;
        let key = key % (1 << MATCH_BITS);
        let before = std::mem::replace(&mut self.places[key], self.bytes.len() as u32) as usize;
        if !self.changes.is_noted.is_empty() {
            self.changes.places.push((key, before as u32));
        }
        if self.same == 0 && before > 0 {
            let (old, new) = (self.bytes[..before].iter().rev(), self.bytes.iter().rev());
            self.same = old.zip(new).take(32).take_while(|(a, b)| a == b).count();
            self.place = before;
        }
    }
}

/// A model that has learnt the sample and nothing else, for one section. Learning the sample takes longer than most
/// sections, so models forget the section and are used again.
struct Lent {
    model: Model,
    /// What forgetting the changes does not bring back.
    weights: [[i32; INPUTS]; ORDERS],
    place: usize,
    same: usize,
}

/// Models that nobody uses.
static IDLE: Mutex<Vec<Model>> = Mutex::new(Vec::new());

impl Lent {
    /// A model for a section of this length.
    fn of_length(length: usize) -> Lent {
        let slots = if length <= SMALL { FEW_SLOTS } else { MANY_SLOTS };
        let idle = {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            let fitting = idle.iter().position(|model| model.slots.len() == CONTEXTS * slots);
            fitting.map(|at| idle.swap_remove(at))
        };
        let model = idle.unwrap_or_else(|| {
            let mut model = Model::primed(slots);
            model.changes.is_noted = vec![false; model.slots.len() / LINE];
            model
        });
        Lent { weights: model.weights, place: model.place, same: model.same, model }
    }

    /// Gives back a model that has forgotten the section.
    fn give_back(mut self) {
        let Model { slots, places, changes, .. } = &mut self.model;
        for (place, line) in changes.lines.drain(..) {
            slots[place..place + LINE].copy_from_slice(&line);
            changes.is_noted[place / LINE] = false;
        }
        for (key, before) in changes.places.drain(..).rev() {
            places[key] = before;
        }
        self.model.bytes.truncate(PRIMER.len());
        (self.model.weights, self.model.place, self.model.same) =
            (self.weights, self.place, self.same);
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self.model);
    }
}

impl Deref for Lent {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Model {
        &mut self.model
    }
}

/// Counts nothing: for the sample.
struct Nowhere;

impl Coder for Nowhere {
    fn coin(&mut self, _: u16, value: bool) -> bool {
        value
    }

    fn raw(&mut self, _: u32, value: u32) -> u32 {
        value
    }
}

/// Compresses.
pub(crate) fn compress(content: &[u8]) -> Vec<u8> {
    let mut model = Lent::of_length(content.len());
    let mut encoder = Encoder::default();
    for byte in content {
        model.code(&mut encoder, *byte);
    }
    model.give_back();
    encoder.finish()
}

/// Decompresses so many bytes.
pub(crate) fn decompress(stored: &[u8], length: usize) -> Vec<u8> {
    let mut model = Lent::of_length(length);
    let mut decoder = Decoder::new(stored);
    let content = (0..length).map(|_| model.code(&mut decoder, 0)).collect();
    model.give_back();
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bytes_come_back(content in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..2000)) {
            let stored = compress(&content);
            prop_assert_eq!(decompress(&stored, content.len()), content);
        }

        #[test]
        fn a_model_forgets_what_it_has_learnt(first: Vec<u8>, second: Vec<u8>) {
            let alone = {
                let mut model = Model::primed(FEW_SLOTS);
                let mut encoder = Encoder::default();
                second.iter().for_each(|byte| { model.code(&mut encoder, *byte); });
                encoder.finish()
            };
            compress(&first);
            prop_assert_eq!(compress(&second), alone);
        }

        #[test]
        fn any_bytes_decompress(stored: Vec<u8>, length in 0..500usize) {
            prop_assert_eq!(decompress(&stored, length).len(), length);
        }
    }

    #[test]
    fn repeated_and_familiar_bytes_take_little() {
        let text = b"a text that repeats itself, ".repeat(100);
        let size = compress(&text).len();
        assert!(size < 60, "{size} bytes");
        let half = &PRIMER[PRIMER.len() / 2..];
        let size = compress(half).len();
        assert!(size < half.len() / 10 + 8, "{size} bytes of {}", half.len());
    }
}
