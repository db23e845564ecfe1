//! How one order differs from another, in as few moves as possible.
//!
//! Messages have a *reference order* that replays know too, and an *observed order*. The observed
//! order is a permutation of 0, 1, 2, …, the places in the reference order, and differs from it
//! by messages that were taken out and put in elsewhere (Sato et al., §3.3 and §4.1). The fewest
//! moves leave in place a longest increasing subsequence: an edit script with twice as many
//! insertions and deletions as there are moves, and no shorter one exists.
//!
//! To be written, moves are such a [script](Script): which places messages are taken from, where
//! messages are put, and which of those taken. Where messages of a few senders that are behind or
//! ahead of each other overtake each other all the time, that is shorter than how far each moved.

use crate::clock::ranks::Ranks;

/// A message that was not received in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its place in the observed order.
    pub index: u64,
    /// How many places later that is than its place in the reference order.
    pub delay: i64,
}

/// The moves that make `observed` of 0, 1, 2, …, by rising index. `observed` has to hold each
/// number below its length once.
///
/// Takes a step for each message, and for each move a search that grows with the logarithm of the
/// distance; stretches in which nothing moves are only looked at.
pub fn moves(observed: &[u32]) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut first = 0;
    let mut most = 0;
    for (at, place) in observed.iter().enumerate() {
        most = most.max(*place as usize);
        if most == at {
            // What came so far is a permutation by itself, as is what follows.
            if at > first {
                stretch(observed.get(first..=at).unwrap_or_default(), first, &mut moves);
            }
            first = at + 1;
        }
    }
    moves
}

/// Appends the moves within a stretch that begins at `first`.
#[expect(
    clippy::indexing_slicing,
    reason = "`ends` and `before` hold places in `observed`; `search` gives at most the length of `ends`"
)]
fn stretch(observed: &[u32], first: usize, moves: &mut Vec<Move>) {
    // Patience sorting: for each length the least last element of an increasing subsequence.
    let mut ends: Vec<u32> = Vec::new();
    let mut before = vec![u32::MAX; observed.len()];
    let mut finger = 0;
    for (at, place) in observed.iter().enumerate() {
        let length = search(&ends, finger, |end| observed[end as usize] < *place);
        if let Some(previous) = length.checked_sub(1) {
            before[at] = ends[previous];
        }
        match ends.get_mut(length) {
            Some(end) => *end = at as u32,
            None => ends.push(at as u32),
        }
        finger = length;
    }
    let mut stays = vec![false; observed.len()];
    let mut at = ends.last().copied().unwrap_or(u32::MAX);
    while let Some(stay) = stays.get_mut(at as usize) {
        *stay = true;
        at = before[at as usize];
    }
    for (at, (place, stays)) in observed.iter().zip(stays).enumerate() {
        if !stays {
            let index = (first + at) as u64;
            moves.push(Move { index, delay: index as i64 - i64::from(*place) });
        }
    }
}

/// How many of `ends` are `below`, looked for in growing steps away from `finger`.
#[expect(clippy::indexing_slicing, reason = "`low` and `high` stay within `ends`, and in order")]
fn search(ends: &[u32], finger: usize, below: impl Fn(u32) -> bool) -> usize {
    let mut high = ends.len();
    let mut low;
    let mut step = 1;
    if finger < high && below(ends[finger]) {
        low = finger + 1;
        while low + step < high && below(ends[low + step]) {
            low += step + 1;
            step *= 2;
        }
        high = high.min(low + step);
    } else {
        high = high.min(finger);
        while high > step && !below(ends[high - step]) {
            high -= step;
            step *= 2;
        }
        low = high.saturating_sub(step);
    }
    low + ends[low..high].partition_point(|end| below(*end))
}

/// The observed order of so many messages; nothing if the moves are not those of any.
pub fn observed(length: usize, moves: &[Move]) -> Option<Vec<u32>> {
    const FREE: u32 = u32::MAX;
    let length = u32::try_from(length).ok().filter(|length| *length < FREE)?;
    let mut observed = vec![FREE; length as usize];
    let mut moved = vec![false; length as usize];
    for Move { index, delay } in moves {
        let place = i64::try_from(*index).ok()?.checked_sub(*delay)?;
        let place = u32::try_from(place).ok()?;
        let slot = observed.get_mut(usize::try_from(*index).ok()?)?;
        let moved = moved.get_mut(place as usize)?;
        if *slot != FREE || std::mem::replace(moved, true) {
            return None;
        }
        *slot = place;
    }
    let mut rest = (0..length).zip(&moved).filter(|(_, moved)| !**moved).map(|(place, _)| place);
    for slot in observed.iter_mut().filter(|slot| **slot == FREE) {
        *slot = rest.next()?;
    }
    Some(observed)
}

/// Moves as insertions and deletions, to be read beside the indices at which messages are put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Places in the reference order that messages are taken from, rising.
    pub taken: Vec<u64>,
    /// For each message put, by rising index, how many of those taken and not put yet were before
    /// it in the reference order.
    pub which: Vec<u32>,
}

impl Script {
    /// Of moves by rising index.
    pub fn of(moves: &[Move]) -> Self {
        let places: Vec<u64> =
            moves.iter().map(|one| one.index.wrapping_sub(one.delay as u64)).collect();
        let mut taken = places.clone();
        taken.sort_unstable();
        let mut left = Ranks::full(taken.len());
        let which = places.iter().map(|place| {
            let at = taken.partition_point(|other| other < place);
            left.remove(at);
            left.before(at)
        });
        Self { which: which.collect(), taken }
    }

    /// The moves, if that many messages were put as were taken, and each was taken.
    pub fn moves(&self, put: &[u64]) -> Option<Vec<Move>> {
        let mut left = Ranks::full(self.taken.len());
        if put.len() != self.taken.len() || put.len() != self.which.len() {
            return None;
        }
        let moves = put.iter().zip(&self.which).map(|(index, which)| {
            let at = left.nth(*which)?;
            left.remove(at);
            let delay = index.wrapping_sub(*self.taken.get(at)?) as i64;
            Some(Move { index: *index, delay })
        });
        moves.collect()
    }
}
