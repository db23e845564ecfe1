//! A call's position in the program's loops, and the times that are expected there.
//!
//! Calls with the same signature take similar times. But the same call in two loops has different
//! intervals before it, which is why clustering intervals by signature did not pay off for Pilgrim
//! (§4.5). A call's *position* here is its signature with the two before it. The decoder knows it
//! from the grammar, and it is found in a nanosecond or two.
//!
//! A table of frequencies for each position would cost more than it saves. So each position has a
//! running mean of its (logarithmic) symbols, and symbols are coded in *classes* by their expected
//! value: positions with similar times share a class. A position that is new uses the expectation of
//! its signature.
//!
//! Positions are hashed into tables, and collisions are ignored: they cost a little size, and are the
//! same for encoder and decoder.

/// Slots of a table, as a power of two.
const SLOTS: u32 = 12;

/// Fractional bits of a mean.
const FRACTION: u32 = 6;

/// Symbols of a class, as a power of two.
const CLASS_WIDTH: u32 = 2;

/// The largest symbol: its class is the last but one.
pub(crate) const MOST_SYMBOL: u8 = 251;

/// The number of classes; the last is for calls without an expectation.
pub(crate) const CLASSES: usize = 64;

/// A position with fewer calls than this is new.
const KNOWN: u64 = 8;

/// Weight of the next symbol in the mean, by the number of symbols before it: 2 to minus this.
const SLOWNESS: [u8; 16] = [0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4];

/// A value for the interval and one for the duration of a call, in one word, so that both are
/// computed at once: 16 bits each, the interval in the lower half.
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

/// The bits of the class in each half: from bit 8, above the symbol.
const CLASS_BITS: u32 = 0x3f00_3f00;

/// The statistics of one position: mean symbols with a fraction, and above them the number of calls,
/// up to the length of [`SLOWNESS`]. One word: a slot is often read right after it was written, and
/// processors forward only whole stores.
#[derive(Clone, Copy, Debug, Default)]
struct Slot(u64);

impl Slot {
    #[inline(always)]
    fn seen(self) -> u64 {
        self.0 >> 32
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    fn learn(&mut self, symbols: Pair) {
        let slowness = SLOWNESS[self.seen() as usize % SLOWNESS.len()];
        let means = Pair(self.0 as u32);
        // Neither half becomes negative or overflows, so nothing is carried over.
        let (less, more) = (means.shifted(slowness), Pair(symbols.0 << FRACTION).shifted(slowness));
        let seen = (self.seen() + 1).min(SLOWNESS.len() as u64 - 1);
        self.0 = u64::from(means.0 - less.0 + more.0) | seen << 32;
    }

    #[inline(always)]
    fn classes(self) -> Pair {
        // Fraction and class width are one byte together, so the class is already in position.
        const { assert!(FRACTION + CLASS_WIDTH == 8) };
        Pair(self.0 as u32 & CLASS_BITS)
    }
}

/// The indices of the slots of a call's position and of its signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    position: usize,
    signature: usize,
}

/// Finds the slots of consecutive calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotFinder {
    before: [u32; 2],
}

impl SlotFinder {
    /// For calls that follow these.
    pub fn after(before: &[u32]) -> SlotFinder {
        let mut last = before.iter().rev().copied();
        SlotFinder { before: [last.next().unwrap_or(0), last.next().unwrap_or(0)] }
    }

    /// The slots of the next call.
    #[inline(always)]
    pub fn next(&mut self, terminal: u32) -> Slots {
        let own = terminal.wrapping_mul(0x9e37_79b1);
        let [first, second] = self.before;
        let all = own
            ^ first.wrapping_mul(0x85eb_ca6b).rotate_left(7)
            ^ second.wrapping_mul(0xc2b2_ae35).rotate_left(17);
        self.before = [terminal, first];
        Slots {
            position: (all.wrapping_mul(0x27d4_eb2f) >> (32 - SLOTS)) as usize,
            signature: (own >> (32 - SLOTS)) as usize,
        }
    }
}

/// The statistics of all positions and signatures of a block.
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

    /// The expected classes of the interval and the duration of a call, times 256.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "`SlotFinder` makes only indices below the lengths of these tables"
    )]
    pub fn expect(&self, slots: Slots) -> Pair {
        let slot = self.by_position[slots.position];
        if slot.seen() > 0 {
            return slot.classes();
        }
        let slot = self.by_signature[slots.signature];
        if slot.seen() > 0 { slot.classes() } else { Pair(CLASS_BITS) }
    }

    /// Updates the statistics with the symbols of a call. A signature learns from new positions only.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "`SlotFinder` makes only indices below the lengths of these tables"
    )]
    pub fn learn(&mut self, slots: Slots, symbols: Pair) {
        let slot = &mut self.by_position[slots.position];
        let known = slot.seen() >= KNOWN;
        slot.learn(symbols);
        if !known {
            self.by_signature[slots.signature].learn(symbols);
        }
    }
}
