//! Re-encodes a thread's chunk with another thread's loop nest as template.
//!
//! A thread that got one row of a matrix has no loop over rows in its chunk, and a thread that got none
//! does not even have the row. Yet both ran the same code as threads that got several rows. So the stream
//! is matched against the template's shapes, in order, where a loop may have one iteration or none.

use std::collections::BTreeSet;

use crate::chunk::{Chunk, Finished};
use crate::follow::{End, NOTHING, Running};
use crate::item::{Item, SMALL};
use crate::player::Player;
use crate::segment::Segments;
use crate::series::Series;
use crate::shape::Op;

/// Longer streams (in words) are not reshaped.
const MOST_WORDS: usize = 1 << 22;

/// The stream of `chunk` as executions of the shapes of `template`, in the same order. `None` if the stream
/// does not match them.
pub fn reshape(chunk: &Finished, template: &Finished) -> Option<Chunk> {
    if !template.cuts.is_empty() || template.sequence.len() > MOST_WORDS {
        return None;
    }
    // A cheap check first: a stream with other blocks cannot match.
    if !blocks_of(chunk).is_subset(&blocks_of(template)) {
        return None;
    }
    let mut words = words_of(chunk)?;
    words.push(NOTHING);
    let mut words = &words[..];
    // The words hold logical addresses already.
    let segments = Segments::identity();
    let mut reshaped = Chunk::default();
    for &entry in &template.sequence {
        let shape = template.entries[entry as usize].shape.clone();
        let mut running = Running::about_to_begin(&shape);
        let series = shape.slots.iter().map(|slot| Series::new(slot.depth)).collect();
        // There is no journal, so the item must not count as a small one.
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
        reshaped.append_nest(&item);
    }
    (words == [NOTHING]).then_some(reshaped)
}

fn blocks_of(chunk: &Finished) -> BTreeSet<u32> {
    let mut blocks = BTreeSet::new();
    chunk.entries.iter().for_each(|entry| entry.shape.node.blocks(&mut blocks));
    blocks
}

fn words_of(chunk: &Finished) -> Option<Vec<u64>> {
    let mut player = Player::new(chunk.clone());
    let (mut words, mut logical) = (Vec::new(), Vec::new());
    while let Some(block) = player.next_block(&mut logical).ok()? {
        words.push(u64::from(block));
        words.extend_from_slice(&logical);
        if words.len() > MOST_WORDS {
            return None;
        }
    }
    Some(words)
}
