//! Telling one thread's stream in the shapes of another's.
//!
//! A thread that got a single row of a matrix has no loop over rows in its trace, and a thread
//! that got none has not even the row; yet they ran the same code as threads that got several.
//! Given the shapes of such a thread, in order, the stream is matched against them: a loop may
//! then have one iteration, or none.

use std::collections::BTreeSet;

use crate::chunk::{Chunk, Finished};
use crate::item::{Item, SMALL};
use crate::player::Player;
use crate::running::{End, NOTHING, Running};
use crate::segment::Segments;
use crate::series::Series;
use crate::shape::Op;

/// Streams of more words than this are not told again.
const MOST_WORDS: usize = 1 << 22;

/// The stream of `chunk` as executions of the shapes of `guide`, in the same order; none if it is
/// not that.
pub fn retell(chunk: &Finished, guide: &Finished) -> Option<Chunk> {
    if !guide.cuts.is_empty() || guide.sequence.len() > MOST_WORDS {
        return None;
    }
    // Playing takes its time: whoever executed other blocks has another stream for sure.
    if !blocks_of(chunk).is_subset(&blocks_of(guide)) {
        return None;
    }
    let mut words = words_of(chunk)?;
    words.push(NOTHING);
    let mut words = &words[..];
    // Places are their own places.
    let segments = Segments::identity();
    let mut told = Chunk::default();
    for &entry in &guide.sequence {
        let shape = guide.entries[entry as usize].shape.clone();
        let mut running = Running::about_to_begin(&shape);
        let series = shape.slots.iter().map(|slot| Series::new(slot.depth)).collect();
        // No journal: the item counts as a large one.
        let mut item = Item {
            id: entry,
            shape,
            series,
            executed: SMALL,
            entered: 0,
            journal: Vec::new(),
            cut: false,
        };
        let (used, _) = running.follow(&mut item, words, &segments);
        words = &words[used..];
        let whole = matches!(item.shape.ops.get(running.at), None | Some(Op::Next(0)));
        if !whole || running.end(&mut item) != End::Exit(0) {
            return None;
        }
        told.append_nest(&item);
    }
    (words == [NOTHING]).then_some(told)
}

fn blocks_of(chunk: &Finished) -> BTreeSet<u32> {
    let mut blocks = BTreeSet::new();
    chunk.entries.iter().for_each(|entry| entry.shape.node.blocks(&mut blocks));
    blocks
}

fn words_of(chunk: &Finished) -> Option<Vec<u64>> {
    let mut player = Player::new(chunk.clone());
    let (mut words, mut places) = (Vec::new(), Vec::new());
    while let Some(block) = player.next_block(&mut places).ok()? {
        words.push(u64::from(block));
        words.extend_from_slice(&places);
        if words.len() > MOST_WORDS {
            return None;
        }
    }
    Some(words)
}
