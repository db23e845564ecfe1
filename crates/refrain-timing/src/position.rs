//! Where in the program's loops a call stands, and what times are to be expected there.
//!
//! Times of calls with the same signature are alike; but the same call in two loops has different
//! intervals before it, which is why clustering intervals by signature did not pay for Pilgrim
//! (§4.5). A call's *position* here is its signature with the two before it: known to the decoder,
//! which has the sequence of signatures from the grammar, and found in a nanosecond or two.
//!
//! A table of frequencies for each position would cost more than it saves. So each position keeps
//! a running mean of the (logarithmic) symbols seen there, and symbols are coded in *classes* by
//! what was expected of them: positions with similar times share a class. A position that was not
//! seen before expects what its signature alone does.
//!
//! Positions are kept in tables without regard to collisions: those cost a little size, and are
//! the same for encoder and decoder.

/// Slots in a table, as a power of two.
const SLOTS: u32 = 12;

/// Fractional bits of a mean.
const FRACTION: u32 = 6;

/// Symbols in a class, as a power of two.
const CLASS_WIDTH: u32 = 2;

/// The largest symbol: its class is the last but one.
pub(crate) const MOST_SYMBOL: u8 = 251;

/// How many classes there are; the last is that of calls of which nothing is known.
pub(crate) const CLASSES: usize = 64;

/// A position where so many calls were seen is not new.
const KNOWN: u64 = 8;

/// How much the next symbol changes the mean, after so many: as 2 to minus this.
const SLOWNESS: [u8; 16] = [0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4];

/// Something of the interval and of the duration of a call, side by side in one word so that both
/// are computed at once: 16 bits each, the interval in the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair(pub u32);

impl Pair {
    #[inline(always)]
    pub fn new(gap: u16, duration: u16) -> Pair {
        Pair(u32::from(gap) | u32::from(duration) << 16)
    }

    #[inline(always)]
    pub fn get(self, column: usize) -> u16 {
        (self.0 >> (16 * column)) as u16
    }

    /// Both divided by 2 to the `by`, of at most 16.
    #[inline(always)]
    fn shifted(self, by: u8) -> Pair {
        let kept = 0xffff >> by;
        Pair((self.0 >> by) & (kept | kept << 16))
    }
}

/// The classes of what is in these symbols, expected to be so: from bit 8, above the symbol.
const CLASS_BITS: u32 = 0x3f00_3f00;

/// What is known of one position: mean symbols, with a fraction, and above them the number of calls
/// seen, up to the last of [`SLOWNESS`]. One word, as a slot is often read right after it was
/// written, and a processor forwards only what was written whole.
#[derive(Clone, Copy, Debug, Default)]
struct Slot(u64);

impl Slot {
    #[inline(always)]
    fn seen(self) -> u64 {
        self.0 >> 32
    }

    #[inline(always)]
    fn learn(&mut self, symbols: Pair) {
        let slowness = SLOWNESS[self.seen() as usize % SLOWNESS.len()];
        let means = Pair(self.0 as u32);
        // No half is ever negative, or too large for its place: nothing is carried over.
        let (less, more) = (means.shifted(slowness), Pair(symbols.0 << FRACTION).shifted(slowness));
        let seen = (self.seen() + 1).min(SLOWNESS.len() as u64 - 1);
        self.0 = u64::from(means.0 - less.0 + more.0) | seen << 32;
    }

    #[inline(always)]
    fn classes(self) -> Pair {
        // Fraction and class width are a byte together: the class stands where it belongs.
        const { assert!(FRACTION + CLASS_WIDTH == 8) };
        Pair(self.0 as u32 & CLASS_BITS)
    }
}

/// Where what is known of a call's position, and of its signature, stands in the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    position: usize,
    signature: usize,
}

/// The places of calls one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    before: [u32; 2],
}

impl Places {
    /// Those of calls that follow these.
    pub fn after(before: &[u32]) -> Places {
        let mut last = before.iter().rev().copied();
        Places { before: [last.next().unwrap_or(0), last.next().unwrap_or(0)] }
    }

    /// The place of the next call.
    #[inline(always)]
    pub fn next(&mut self, terminal: u32) -> Place {
        let own = terminal.wrapping_mul(0x9e37_79b1);
        let [first, second] = self.before;
        let all = own
            ^ first.wrapping_mul(0x85eb_ca6b).rotate_left(7)
            ^ second.wrapping_mul(0xc2b2_ae35).rotate_left(17);
        self.before = [terminal, first];
        Place {
            position: (all.wrapping_mul(0x27d4_eb2f) >> (32 - SLOTS)) as usize,
            signature: (own >> (32 - SLOTS)) as usize,
        }
    }
}

/// What is known of the positions and signatures of a block.
#[derive(Debug)]
pub(crate) struct Positions {
    by_position: Box<[Slot; 1 << SLOTS]>,
    by_signature: Box<[Slot; 1 << SLOTS]>,
}

impl Positions {
    pub fn new() -> Positions {
        let table = || Box::new([Slot::default(); 1 << SLOTS]);
        Positions { by_position: table(), by_signature: table() }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.by_position.fill(Slot::default());
        self.by_signature.fill(Slot::default());
    }

    /// The classes of the interval and the duration of the call there, 256 times.
    #[inline(always)]
    pub fn expect(&self, place: Place) -> Pair {
        let slot = self.by_position[place.position];
        if slot.seen() > 0 {
            return slot.classes();
        }
        let slot = self.by_signature[place.signature];
        if slot.seen() > 0 { slot.classes() } else { Pair(CLASS_BITS) }
    }

    /// Takes in what that call's symbols were. A signature learns from positions that are new.
    #[inline(always)]
    pub fn learn(&mut self, place: Place, symbols: Pair) {
        let slot = &mut self.by_position[place.position];
        let known = slot.seen() >= KNOWN;
        slot.learn(symbols);
        if !known {
            self.by_signature[place.signature].learn(symbols);
        }
    }
}
