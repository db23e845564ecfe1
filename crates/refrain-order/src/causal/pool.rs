//! Pools: receives that are posted again as they complete.
//!
//! Programs with wildcard receives often keep a pool of them in an array, and post each again as soon as it has
//! completed. Then completions, which are coded first, predict the receives: which request of the array each receive
//! became, and so its shape; and whether the program was waiting when it completed, because other senders are likely
//! then.

use crate::causal::event::{Block, Picked};

/// If the numbers of completions and receives differ by more than this, it is no pool.
const DRIFT: usize = 64;
/// The most requests of a pool; others are ignored.
const MOST_SLOTS: u32 = 256;

/// A prediction about a receive, from the calls of its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The index of its request in the array, counted from one; 0 if that is not known.
    pub slot: u32,
    /// Whether polls failed just before it completed.
    pub waited: Option<bool>,
}

/// Predictions for the `receives` receives of a block, from its calls. Empty if they are no pool.
pub fn hints(block: &Block, receives: usize) -> Vec<Hint> {
    let behind = block.behind as usize;
    if block.picks.is_empty() || receives.abs_diff(block.picks.len().saturating_add(behind)) > DRIFT
    {
        return Vec::new();
    }
    let mut hints = vec![Hint::default(); receives];
    // The current receive of every request, counted from one.
    let mut posted = [0u32; MOST_SLOTS as usize];
    let mut picks = block.picks.iter().enumerate();
    for call in &block.calls {
        let Picked::These(several) = call.picked else { continue };
        for (number, index) in picks.by_ref().take(several as usize) {
            let Some(posted) = posted.get_mut(*index as usize) else { continue };
            if let Some(completed) = hints.get_mut((*posted as usize).wrapping_sub(1)) {
                completed.waited = Some(call.polls > 0);
            }
            *posted = (number + behind + 1) as u32;
            if let Some(again) = hints.get_mut(number + behind) {
                again.slot = index + 1;
            }
        }
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::event::CallEvent;

    fn block(behind: u32, calls: &[(u64, &[u32])]) -> Block {
        let mut block = Block { behind, ..Block::default() };
        for (polls, indices) in calls {
            let picked = Picked::These(indices.len() as u32);
            block.calls.push(CallEvent { polls: *polls, picked, ..CallEvent::default() });
            block.picks.extend_from_slice(indices);
        }
        block
    }

    #[test]
    fn a_receive_posted_after_a_completion_gets_the_completed_slot() {
        // Two receives were posted; the second completed first, both again later.
        let block = block(2, &[(0, &[1]), (3, &[0, 1]), (0, &[1])]);
        let hint = |slot, waited| Hint { slot, waited };
        assert_eq!(
            hints(&block, 6),
            [
                hint(0, None),
                hint(0, None),
                hint(2, Some(true)),
                hint(1, None),
                hint(2, Some(false)),
                hint(2, None)
            ]
        );
    }

    #[test]
    fn completions_that_do_not_fit_the_receives_give_no_hints() {
        let calls: Vec<(u64, &[u32])> = vec![(0, &[0]); 200];
        assert_eq!(hints(&block(1, &calls), 100), []);
        assert_eq!(hints(&block(u32::MAX, &calls), 100), []);
        assert_eq!(hints(&block(1, &calls), 201).len(), 201);
    }
}
