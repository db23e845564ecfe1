//! Which messages belong to a chunk (Sato et al., §3.5).
//!
//! Records are written in chunks, and places in the reference order count the messages of one
//! chunk. So a replay has to know of every message that comes which chunk it belongs to. The
//! *epoch line* of a chunk has for each sender the last stamp in it: what is stamped later belongs
//! to a later chunk.
//!
//! Programs may learn of messages of one sender in another order than they were sent, and may
//! never learn of some. Messages before the line that are not in the chunk are *holes*; if they
//! come after all, the later chunk lists them as *late*. Both are known by their numbers: messages
//! from one process to another are counted.

use std::collections::{BTreeMap, BTreeSet};

use refrain_bytes::table::Map;

/// One sender's end of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The sender.
    pub sender: u32,
    /// The stamp of its last message in the chunk.
    pub clock: u64,
}

/// A message by its sender, and its number among the messages of that sender.
pub type Numbered = (u32, u64);

/// What divides a chunk from those behind it, as far as it differs from the chunk before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// By sender, of those that have sent something stamped later than anything before.
    pub lines: Vec<Line>,
    /// Messages before the line that do not belong to the chunk.
    pub holes: Vec<Numbered>,
    /// Holes of earlier chunks that do.
    pub late: Vec<Numbered>,
}

/// A message that belongs to the chunk being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The sender.
    pub sender: u32,
    /// Its number among the messages from that sender.
    pub sequence: u64,
    /// Its stamp.
    pub clock: u64,
}

/// Draws lines.
#[derive(Clone, Debug, Default)]
pub struct Ruler {
    senders: BTreeMap<u32, Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// One more than the highest number that came.
    top: u64,
    /// Lower ones that did not come.
    missing: BTreeSet<u64>,
}

impl Ruler {
    /// The epoch of a chunk with these members.
    pub fn draw(&mut self, members: impl Iterator<Item = Member>) -> Epoch {
        let mut own: BTreeMap<u32, (Vec<u64>, u64, u64)> = BTreeMap::new();
        for Member { sender, sequence, clock } in members {
            let (sequences, last, line) = own.entry(sender).or_default();
            sequences.push(sequence);
            if sequence >= *last {
                (*last, *line) = (sequence, clock);
            }
        }
        let mut epoch = Epoch::default();
        for (sender, (mut sequences, last, clock)) in own {
            let seen = self.senders.entry(sender).or_default();
            sequences.sort_unstable();
            let first = sequences.partition_point(|sequence| *sequence < seen.top);
            let (before, after) = sequences.split_at_checked(first).unwrap_or_default();
            for sequence in before {
                if seen.missing.remove(sequence) {
                    epoch.late.push((sender, *sequence));
                }
            }
            if last < seen.top {
                continue;
            }
            epoch.lines.push(Line { sender, clock });
            let mut next = seen.top;
            for sequence in after {
                let holes = next..*sequence;
                seen.missing.extend(holes.clone());
                epoch.holes.extend(holes.map(|hole| (sender, hole)));
                next = sequence + 1;
            }
            seen.top = next;
        }
        epoch
    }
}

/// Tells the members of chunks, as a replay reads them.
#[derive(Clone, Debug, Default)]
pub struct Border {
    /// For each sender the lines before and behind the chunk.
    lines: Map<u32, (Option<u64>, u64)>,
    holes: BTreeSet<Numbered>,
    late: BTreeSet<Numbered>,
}

impl Border {
    /// Whether a message belongs to the chunk.
    pub fn holds(&self, member: &Member) -> bool {
        let Member { sender, sequence, clock } = *member;
        let within = self.lines.get(&sender).is_some_and(|(before, line)| {
            before.is_none_or(|before| clock > before) && clock <= *line
        });
        self.late.contains(&(sender, sequence))
            || (within && !self.holes.contains(&(sender, sequence)))
    }

    /// Whether messages of a sender may belong to the chunk that are not numbered or stamped
    /// before these.
    pub fn reaches(&self, sender: u32, sequence: u64, clock: u64) -> bool {
        self.lines.get(&sender).is_some_and(|(_, line)| *line >= clock)
            || self.late.range((sender, sequence)..=(sender, u64::MAX)).next().is_some()
    }
}

impl Border {
    /// All senders of messages of the chunk.
    pub fn senders(&self) -> impl Iterator<Item = u32> + '_ {
        let late = self.late.iter().map(|(sender, _)| *sender);
        self.lines.keys().copied().chain(late)
    }
}

/// Follows the lines of chunks, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    lines: Map<u32, u64>,
    holes: BTreeSet<Numbered>,
}

impl Lines {
    /// The next chunk is reached.
    pub fn follow(&mut self, epoch: &Epoch) -> Border {
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

    /// Whether a message may belong to a chunk behind those that were reached.
    pub fn is_ahead(&self, member: &Member) -> bool {
        let Member { sender, sequence, clock } = *member;
        self.lines.get(&sender).is_none_or(|line| clock > *line)
            || self.holes.contains(&(sender, sequence))
    }
}
