//! Addresses, predicted from earlier ones.
//!
//! A *slot* is one reference of one block. There are six guesses at its next address:
//!
//! | guess | right for |
//! |---|---|
//! | last address plus the stride | arrays |
//! | address of the previous reference plus the last distance between the two | fields of one object, stack frames |
//! | the address that followed the slot's last address, the last time | lists that are walked again |
//! | address of the previous reference plus the distance after the same sequence of blocks | frames of different callers |
//! | the address that followed the address of the previous reference | pointers to other objects |
//! | last address | globals |
//!
//! Each slot tries the guesses that were right most recently first. One decision says whether the
//! first guess is right for all references of the block; most blocks cost no other.
//!
//! An address that no guess predicts is coded by its rank among recently mispredicted addresses
//! (programs return to the objects they used), or else by its distance from a nearby address.

use super::{code_tree, index};
use refrain_bytes::range::{Bit, Coder};

/// How many guesses there are.
const GUESSES: usize = 6;
/// Entries of the table of distances between neighbouring references, as a power of two.
const DISTANCES: u32 = 16;
/// Entries of the tables of following addresses, as a power of two.
const FOLLOWERS: u32 = 17;
/// Mispredicted addresses that can be named by how long ago they were mispredicted.
const RECENT: u32 = 16;
/// Mispredicted addresses are remembered in units of so many bytes, as a power of two.
const UNIT: u32 = 4;
/// How many models of mispredictions there are. Slots with larger numbers share them.
const SLOTS: usize = 1 << 13;
/// Bits of the bit-length of a distance.
const LENGTH_BITS: u32 = 7;
/// The last bits of a distance are modelled: addresses are aligned.
const ALIGNED: u32 = 3;
/// Where distances of mispredicted addresses are measured from.
const ORIGINS: usize = 3;

/// One reference of one block.
#[derive(Clone, Debug)]
struct Slot {
    last: u64,
    stride: u64,
    /// The last step: it becomes the stride when it is seen twice.
    step: u64,
    /// The lowest address that was mispredicted.
    low: u64,
    /// The guesses in the order in which they are tried.
    order: [u8; GUESSES],
    /// Whether the first guess was right the last time.
    was_first: bool,
    /// From which origin distances are measured, and about how long distances from each origin would be.
    origin: u8,
    lengths: [u16; ORIGINS],
    /// Models of whether each guess is right, by whether the first guess was right the last time.
    right: [[Bit; GUESSES]; 2],
    is_recent: Bit,
}

/// A block: its first slot, how many slots it has, and models of whether all first guesses are right, by
/// whether they were right the last time.
#[derive(Clone, Debug)]
struct Block {
    slot: usize,
    length: usize,
    were_right: bool,
    all_right: [Bit; 2],
}

/// The previous reference.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    address: u64,
    slot: u64,
}

/// Which addresses and distances followed which.
#[derive(Clone, Debug)]
struct Tables {
    /// The distance between two consecutive references, by their slots.
    distances: Vec<u64>,
    /// The address after a slot's last address.
    after_own: Vec<u64>,
    /// The distance from the previous reference, by the blocks before.
    by_history: Vec<u64>,
    /// The address after the address of the previous reference.
    after_other: Vec<u64>,
    /// A hash of the last blocks.
    history: u64,
}

/// Models of mispredictions.
#[derive(Clone, Debug)]
struct Misses {
    /// The units of mispredicted addresses, as a ring.
    recent: Vec<u64>,
    /// When each unit was mispredicted last, by its hash.
    when: Vec<u64>,
    /// One more than the number of mispredictions so far.
    now: u64,
    /// Models of the ages of recently mispredicted units: the lengths, by slot, and the highest digit.
    ages: Vec<Bit>,
    age_digits: [Bit; RECENT as usize],
    /// Models of the offsets of addresses within their unit, by slot.
    within: Vec<Bit>,
    /// Models of the lengths of distances, by slot.
    lengths: Vec<Bit>,
    /// Models of the first and last digits of distances, by length.
    first_digits: Vec<Bit>,
    last_digits: Vec<Bit>,
}

/// A model of the addresses of blocks' references.
#[derive(Clone, Debug)]
pub struct AddressModel {
    blocks: Vec<Block>,
    slots: Vec<Slot>,
    before: Before,
    tables: Tables,
    misses: Misses,
    /// The first guess of each reference of a block.
    guesses: Vec<u64>,
}

impl Tables {
    /// A guess at the next address of a slot with this number, last address and stride.
    #[inline(always)]
    fn guess(&self, which: u8, number: u64, last: u64, stride: u64, before: Before) -> u64 {
        match which {
            0 => last.wrapping_add(stride),
            1 => {
                let at = index(number, before.slot, DISTANCES);
                before.address.wrapping_add(self.distances[at])
            }
            2 => self.after_own[index(number, last, FOLLOWERS)],
            3 => {
                let at = index(number, self.history, FOLLOWERS);
                before.address.wrapping_add(self.by_history[at])
            }
            4 => self.after_other[index(number, before.address, FOLLOWERS)],
            _ => last,
        }
    }

    /// Learns the address that came.
    fn learn(&mut self, number: u64, last: u64, before: Before, address: u64) {
        let distance = address.wrapping_sub(before.address);
        self.distances[index(number, before.slot, DISTANCES)] = distance;
        self.after_own[index(number, last, FOLLOWERS)] = address;
        self.by_history[index(number, self.history, FOLLOWERS)] = distance;
        self.after_other[index(number, before.address, FOLLOWERS)] = address;
    }
}

impl Slot {
    /// Codes which guess is right, and returns it; `None` if none is.
    fn code_guess(
        &mut self,
        coder: &mut impl Coder,
        number: u64,
        before: Before,
        tables: &Tables,
        given: u64,
    ) -> Option<u64> {
        let right = &mut self.right[usize::from(self.was_first)];
        let mut tried = [0; GUESSES];
        let mut count = 0;
        for (nth, model) in right.iter_mut().enumerate() {
            let guess = tables.guess(self.order[nth], number, self.last, self.stride, before);
            if tried[..count].contains(&guess) {
                continue;
            }
            tried[count] = guess;
            count += 1;
            if coder.bit(model, given == guess) {
                self.was_first = nth == 0;
                self.order.swap(nth.saturating_sub(1), nth);
                return Some(guess);
            }
        }
        self.was_first = false;
        None
    }

    /// Learns the address that came.
    #[inline]
    fn learn(&mut self, address: u64) {
        let step = address.wrapping_sub(self.last);
        if step == self.step || self.stride == 0 {
            self.stride = step;
        }
        self.step = step;
        self.last = address;
    }
}

/// Zigzag: the sign becomes the last bit.
#[inline]
fn unsigned(distance: u64) -> u64 {
    let distance = distance as i64;
    (distance << 1 ^ distance >> 63) as u64
}

#[inline]
fn signed(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

#[inline]
fn length_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

impl AddressModel {
    pub fn new() -> Self {
        let tables = Tables {
            distances: vec![0; 1 << DISTANCES],
            after_own: vec![0; 1 << FOLLOWERS],
            by_history: vec![0; 1 << FOLLOWERS],
            after_other: vec![0; 1 << FOLLOWERS],
            history: 0,
        };
        Self {
            blocks: Vec::new(),
            slots: Vec::new(),
            before: Before::default(),
            tables,
            misses: Misses::new(),
            guesses: Vec::new(),
        }
    }

    /// How many references a block has, if it was added.
    #[inline]
    pub fn length_of(&self, block: u32) -> Option<usize> {
        self.blocks.get(block as usize).map(|block| block.length)
    }

    /// Adds the next block, which has `length` references.
    pub fn add_block(&mut self, length: usize) {
        let slot = self.slots.len();
        let all_right = [Bit::EVEN; 2];
        self.blocks.push(Block { slot, length, were_right: false, all_right });
        let new = Slot {
            last: 0,
            stride: 0,
            step: 0,
            low: 0,
            order: [0, 1, 2, 3, 4, 5],
            was_first: true,
            origin: 0,
            lengths: [0; ORIGINS],
            right: [[Bit::EVEN; GUESSES]; 2],
            is_recent: Bit::EVEN,
        };
        self.slots.resize(slot + length, new);
    }

    /// Codes the addresses of an execution of a block that was added, after the blocks of `history`.
    #[inline]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        block: u32,
        history: u64,
        addresses: &mut [u64],
    ) {
        let Some(block) = self.blocks.get_mut(block as usize) else { return };
        if addresses.is_empty() {
            return;
        }
        self.tables.history = history;
        let first = block.slot;
        let slots = &mut self.slots[first..first + block.length];
        let mut before = self.before;
        self.guesses.resize(slots.len(), 0);
        let mut are_right = true;
        for (nth, ((slot, guess), address)) in
            slots.iter().zip(&mut self.guesses).zip(&*addresses).enumerate()
        {
            let number = (first + nth) as u64;
            *guess = self.tables.guess(slot.order[0], number, slot.last, slot.stride, before);
            are_right &= *guess == *address;
            before = Before { address: *guess, slot: number };
        }
        let model = &mut block.all_right[usize::from(block.were_right)];
        block.were_right = coder.bit(model, are_right);
        if block.were_right {
            addresses.copy_from_slice(&self.guesses);
            for (nth, (slot, &address)) in slots.iter_mut().zip(&*addresses).enumerate() {
                let number = (first + nth) as u64;
                let at = index(number, self.before.slot, DISTANCES);
                self.tables.distances[at] = address.wrapping_sub(self.before.address);
                slot.was_first = true;
                slot.learn(address);
                self.before = Before { address, slot: number };
            }
            return;
        }
        for (nth, (slot, address)) in slots.iter_mut().zip(addresses).enumerate() {
            let number = (first + nth) as u64;
            let found = slot.code_guess(coder, number, self.before, &self.tables, *address);
            *address = match found {
                Some(address) => address,
                None => self.misses.code(coder, slot, number, self.before.address, *address),
            };
            self.tables.learn(number, slot.last, self.before, *address);
            slot.learn(*address);
            self.before = Before { address: *address, slot: number };
        }
    }
}

impl Misses {
    fn new() -> Self {
        Self {
            recent: vec![0; 1 << RECENT],
            when: vec![0; 1 << RECENT],
            now: 1,
            ages: vec![Bit::EVEN; SLOTS << 4],
            age_digits: [Bit::EVEN; RECENT as usize],
            within: vec![Bit::EVEN; SLOTS << UNIT],
            lengths: vec![Bit::EVEN; SLOTS << LENGTH_BITS],
            first_digits: vec![Bit::EVEN; 4 << LENGTH_BITS],
            last_digits: vec![Bit::EVEN; 1 << (LENGTH_BITS + ALIGNED)],
        }
    }

    /// Codes an address that no guess predicted.
    #[inline(never)]
    fn code(
        &mut self,
        coder: &mut impl Coder,
        slot: &mut Slot,
        number: u64,
        before: u64,
        given: u64,
    ) -> u64 {
        let unit = given >> UNIT;
        let when = self.when[index(unit, 3, RECENT)];
        let age = self.now - when;
        let is_recent = when != 0 && age < 1 << RECENT && *self.unit_at(when) == unit;
        let shared = number as usize % SLOTS;
        let address = match coder.bit(&mut slot.is_recent, is_recent) {
            true => self.code_recent(coder, shared, age, given),
            false => self.code_distance(coder, slot, shared, before, given),
        };
        let unit = address >> UNIT;
        *self.unit_at(self.now) = unit;
        self.when[index(unit, 3, RECENT)] = self.now;
        self.now += 1;
        address
    }

    fn unit_at(&mut self, when: u64) -> &mut u64 {
        &mut self.recent[when as usize % (1 << RECENT)]
    }

    /// Codes an address by how many mispredictions ago its unit was mispredicted.
    fn code_recent(&mut self, coder: &mut impl Coder, slot: usize, age: u64, given: u64) -> u64 {
        let models = &mut self.ages[slot << 4..(slot + 1) << 4];
        let mut left = code_tree(coder, models, 4, (length_of(age).max(1) - 1).into()) as u32;
        let mut coded = 1;
        if left > 0 {
            let model = &mut self.age_digits[left as usize];
            left -= 1;
            coded = coded << 1 | u64::from(coder.bit(model, age >> left & 1 == 1));
        }
        if left > 0 {
            let digits = coder.raw(left, age as u32 & ((1 << left) - 1));
            coded = coded << left | u64::from(digits);
        }
        let unit = *self.unit_at(self.now.wrapping_sub(coded));
        let models = &mut self.within[slot << UNIT..(slot + 1) << UNIT];
        unit << UNIT | code_tree(coder, models, UNIT, given & ((1 << UNIT) - 1))
    }

    /// Codes an address by its distance from the origin that makes distances short.
    fn code_distance(
        &mut self,
        coder: &mut impl Coder,
        slot: &mut Slot,
        shared: usize,
        before: u64,
        given: u64,
    ) -> u64 {
        let origins = [slot.last, before, slot.low];
        let origin = origins[usize::from(slot.origin) % ORIGINS];
        let number = unsigned(given.wrapping_sub(origin));
        let models = &mut self.lengths[shared << LENGTH_BITS..(shared + 1) << LENGTH_BITS];
        let length = code_tree(coder, models, LENGTH_BITS, length_of(number).into()).min(64);
        let number = self.code_digits(coder, length as u32, number);
        let address = origin.wrapping_add(signed(number));
        for (average, origin) in slot.lengths.iter_mut().zip(origins) {
            let length = length_of(unsigned(address.wrapping_sub(origin))) as u16;
            *average = *average - (*average >> 4) + length * 8;
        }
        let shortest = (0..ORIGINS).min_by_key(|at| slot.lengths[*at]);
        slot.origin = shortest.unwrap_or(0) as u8;
        if slot.low == 0 || address < slot.low {
            slot.low = address;
        }
        address
    }

    /// Codes the binary digits after the leading one of a number of `length` digits. Models are used for the first
    /// two and the last [`ALIGNED`] digits only.
    fn code_digits(&mut self, coder: &mut impl Coder, length: u32, given: u64) -> u64 {
        let Some(mut left) = length.checked_sub(1) else { return 0 };
        let mut coded = 1u64;
        let mut node = 1usize;
        while left > 0 && length - left <= 2 {
            left -= 1;
            let model = &mut self.first_digits[(length as usize) << 2 | node & 3];
            let digit = coder.bit(model, given >> left & 1 == 1);
            coded = coded << 1 | u64::from(digit);
            node = node << 1 | usize::from(digit);
        }
        while left > ALIGNED {
            let count = (left - ALIGNED).min(16);
            left -= count;
            let digits = coder.raw(count, (given >> left) as u32 & ((1 << count) - 1));
            coded = coded << count | u64::from(digits);
        }
        let at = (length as usize) << ALIGNED;
        let models = &mut self.last_digits[at..at + (1 << ALIGNED)];
        coded << left | code_tree(coder, models, left, given & ((1 << left) - 1))
    }
}
