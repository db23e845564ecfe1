//! The difference between two orders, in as few moves as possible.
//!
//! Messages have a *reference order*, which a replay knows too, and an *observed order*. The observed order is a
//! permutation of 0, 1, 2, …, the positions in the reference order, and differs from it by messages that were taken
//! out and put in elsewhere (Sato et al., §3.3 and §4.1). The fewest moves leave a longest increasing subsequence in
//! place; no edit script with fewer insertions and deletions exists.
//!
//! Moves are written as a [script](Script): the positions that messages are taken from, the positions where messages
//! are put, and which of the taken ones is put there. If the messages of a few senders overtake each other all the
//! time, that takes fewer bytes than the distance that each message moved.

use crate::clock::ranks::Ranks;

/// A message that was not received at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its position in the observed order.
    pub index: u64,
    /// How much later that is than its position in the reference order.
    pub delay: i64,
}

/// The moves that turn 0, 1, 2, … into `observed`, by rising index. `observed` must hold each number below its length
/// once.
///
/// Takes one step per message, and per move a search whose cost grows with the logarithm of the distance. Stretches
/// without moves are only scanned.
pub fn moves(observed: &[u32]) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut first = 0;
    let mut most = 0;
    for (at, position) in observed.iter().enumerate() {
        most = most.max(*position as usize);
        if most == at {
            // The messages so far are a permutation by themselves, and so are those that follow.
            if at > first {
                stretch(observed.get(first..=at).unwrap_or_default(), first, &mut moves);
            }
            first = at + 1;
        }
    }
    moves
}

/// Appends the moves of a stretch that begins at `first`.
#[expect(
    clippy::indexing_slicing,
    reason = "`ends` and `before` hold indices of `observed`; `search` gives at most the length of `ends`"
)]
fn stretch(observed: &[u32], first: usize, moves: &mut Vec<Move>) {
    // Patience sorting: for each length the least last element of an increasing subsequence.
    let mut ends: Vec<u32> = Vec::new();
    let mut before = vec![u32::MAX; observed.len()];
    let mut finger = 0;
    for (at, position) in observed.iter().enumerate() {
        let length = search(&ends, finger, |end| observed[end as usize] < *position);
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
    for (at, (position, stays)) in observed.iter().zip(stays).enumerate() {
        if !stays {
            let index = (first + at) as u64;
            moves.push(Move { index, delay: index as i64 - i64::from(*position) });
        }
    }
}

/// How many of `ends` are `below`, by exponential search from `finger`.
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

/// The observed order of `length` messages; `None` if the moves are inconsistent.
pub fn observed(length: usize, moves: &[Move]) -> Option<Vec<u32>> {
    const FREE: u32 = u32::MAX;
    let length = u32::try_from(length).ok().filter(|length| *length < FREE)?;
    let mut observed = vec![FREE; length as usize];
    let mut moved = vec![false; length as usize];
    for Move { index, delay } in moves {
        let position = i64::try_from(*index).ok()?.checked_sub(*delay)?;
        let position = u32::try_from(position).ok()?;
        let slot = observed.get_mut(usize::try_from(*index).ok()?)?;
        let moved = moved.get_mut(position as usize)?;
        if *slot != FREE || std::mem::replace(moved, true) {
            return None;
        }
        *slot = position;
    }
    let mut rest =
        (0..length).zip(&moved).filter(|(_, moved)| !**moved).map(|(position, _)| position);
    for slot in observed.iter_mut().filter(|slot| **slot == FREE) {
        *slot = rest.next()?;
    }
    Some(observed)
}

/// Moves as insertions and deletions. The indices at which messages are put are stored beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Positions in the reference order that messages are taken from, rising.
    pub taken: Vec<u64>,
    /// For each message that is put, by rising index: how many of the messages that are taken and not put yet precede
    /// it in the reference order.
    pub which: Vec<u32>,
}

impl Script {
    /// From moves by rising index.
    pub fn of(moves: &[Move]) -> Self {
        let positions: Vec<u64> =
            moves.iter().map(|one| one.index.wrapping_sub(one.delay as u64)).collect();
        let mut taken = positions.clone();
        taken.sort_unstable();
        let mut left = Ranks::full(taken.len());
        let which = positions.iter().map(|position| {
            let at = taken.partition_point(|other| other < position);
            left.remove(at);
            left.before(at)
        });
        Self { which: which.collect(), taken }
    }

    /// The moves, for the indices at which messages are put; `None` if they do not fit the script.
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
