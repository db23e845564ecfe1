//! Which messages belong to a chunk (Sato et al., §3.5).
//!
//! A record is written in chunks, and positions in the reference order count the messages of one chunk. So a replay
//! has to know which chunk each arriving message belongs to. The *epoch line* of a chunk has the last stamp of each
//! sender in it: messages with later stamps belong to later chunks.
//!
//! A program may observe messages of one sender in another order than they were sent, and some never. Messages before
//! the line that are not in the chunk are *holes*; if they are observed later, that chunk lists them as *late*. Both
//! are identified by sender and sequence number.

use std::collections::{BTreeMap, BTreeSet};

use refrain_bytes::table::Map;

/// The epoch line of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The sender.
    pub sender: u32,
    /// The stamp of its last message in the chunk.
    pub clock: u64,
}

/// A message by its sender and its sequence number among that sender's messages.
pub type Numbered = (u32, u64);

/// The epoch of a chunk, as the difference from the previous chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The new lines, by sender. A sender without newer messages has none.
    pub lines: Vec<Line>,
    /// Messages before the line that do not belong to the chunk.
    pub holes: Vec<Numbered>,
    /// Holes of earlier chunks that belong to this chunk.
    pub late: Vec<Numbered>,
}

/// A message of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The sender.
    pub sender: u32,
    /// Its sequence number among that sender's messages.
    pub sequence: u64,
    /// Its stamp.
    pub clock: u64,
}

/// Computes the epochs of consecutive chunks.
#[derive(Clone, Debug, Default)]
pub struct EpochBuilder {
    senders: BTreeMap<u32, SenderState>,
}

#[derive(Clone, Debug, Default)]
struct SenderState {
    /// One more than the highest sequence number observed.
    top: u64,
    /// Lower sequence numbers that were not observed.
    missing: BTreeSet<u64>,
}

impl EpochBuilder {
    /// The epoch of a chunk with these members.
    pub fn build(&mut self, members: impl Iterator<Item = Member>) -> Epoch {
        let mut by_sender: BTreeMap<u32, (Vec<u64>, u64, u64)> = BTreeMap::new();
        for Member { sender, sequence, clock } in members {
            let (sequences, last, line) = by_sender.entry(sender).or_default();
            sequences.push(sequence);
            if sequence >= *last {
                (*last, *line) = (sequence, clock);
            }
        }
        let mut epoch = Epoch::default();
        for (sender, (mut sequences, last, clock)) in by_sender {
            let state = self.senders.entry(sender).or_default();
            sequences.sort_unstable();
            let first = sequences.partition_point(|sequence| *sequence < state.top);
            let (before, after) = sequences.split_at_checked(first).unwrap_or_default();
            for sequence in before {
                if state.missing.remove(sequence) {
                    epoch.late.push((sender, *sequence));
                }
            }
            if last < state.top {
                continue;
            }
            epoch.lines.push(Line { sender, clock });
            let mut next = state.top;
            for sequence in after {
                let holes = next..*sequence;
                state.missing.extend(holes.clone());
                epoch.holes.extend(holes.map(|hole| (sender, hole)));
                next = sequence + 1;
            }
            state.top = next;
        }
        epoch
    }
}

/// Decides which messages belong to a chunk, in a replay.
#[derive(Clone, Debug, Default)]
pub struct Border {
    /// For each sender, the lines of the previous chunk and of this one.
    lines: Map<u32, (Option<u64>, u64)>,
    holes: BTreeSet<Numbered>,
    late: BTreeSet<Numbered>,
}

impl Border {
    /// Whether a message belongs to the chunk.
    pub fn contains(&self, member: &Member) -> bool {
        let Member { sender, sequence, clock } = *member;
        let within = self.lines.get(&sender).is_some_and(|(before, line)| {
            before.is_none_or(|before| clock > before) && clock <= *line
        });
        self.late.contains(&(sender, sequence))
            || (within && !self.holes.contains(&(sender, sequence)))
    }

    /// Whether a message of this sender with at least this sequence number and clock may belong to the chunk.
    pub fn may_contain_from(&self, sender: u32, sequence: u64, clock: u64) -> bool {
        self.lines.get(&sender).is_some_and(|(_, line)| *line >= clock)
            || self.late.range((sender, sequence)..=(sender, u64::MAX)).next().is_some()
    }
}

impl Border {
    /// All senders with messages in the chunk.
    pub fn senders(&self) -> impl Iterator<Item = u32> + '_ {
        let late = self.late.iter().map(|(sender, _)| *sender);
        self.lines.keys().copied().chain(late)
    }
}

/// Follows the epoch lines of consecutive chunks.
#[derive(Clone, Debug, Default)]
pub struct EpochLines {
    lines: Map<u32, u64>,
    holes: BTreeSet<Numbered>,
}

impl EpochLines {
    /// Moves to the next chunk.
    pub fn next_chunk(&mut self, epoch: &Epoch) -> Border {
        let mut border = Border::default();
        for Line { sender, clock } in &epoch.lines {
            let before = self.lines.insert(*sender, *clock);
            border.lines.insert(*sender, (before, *clock));
        }
        border.holes = epoch.holes.iter().copied().collect();
        border.late = epoch.late.iter().copied().collect();
        self.holes.extend(&border.holes);
        epoch.late.iter().for_each(|late| {
            self.holes.remove(late);
        });
        border
    }

    /// Whether a message may belong to a later chunk.
    pub fn is_ahead(&self, member: &Member) -> bool {
        let Member { sender, sequence, clock } = *member;
        self.lines.get(&sender).is_none_or(|line| clock > *line)
            || self.holes.contains(&(sender, sequence))
    }
}
