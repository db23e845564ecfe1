//! The board: a shared file in which the ranks of a replay publish their progress and what they wait for.
//!
//! All ranks map the file; each has a slot of words. So a rank that waits too long can see whether any rank makes
//! progress, and can report what the others wait for, without messages and without a thread. The `refrain` process
//! reads it too ([`Watch`]): if all ranks hang in calls that are not recorded, none of them looks at the board.

use refrain_bytes::stable;
use std::fmt::Write;
use std::time::Duration;

/// The number of words of a slot: state, number of calls, a flag, the current function, and a text.
pub const SLOT: usize = 32;
/// The word with the state.
pub const STATE: usize = 0;
/// The word with the number of calls.
pub const CALLS: usize = 1;
/// In the first slot: the word that is set once a rank has printed the report.
pub const REPORTED: usize = 2;
/// The word with the number of the current function.
pub const FUNCTION: usize = 3;
/// The first word of the text, which ends with a zero byte unless it fills the slot.
pub const TEXT: usize = 4;

/// The state of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// In the program's code, or briefly in a call.
    Running = 0,
    /// Waits for something that was recorded.
    Waiting = 1,
    /// At the end of its record.
    AtEnd = 2,
    /// In MPI_Finalize.
    Finalizing = 3,
    /// Waits for a debugger.
    Held = 4,
    /// In a call that is not recorded, and that may wait for other ranks.
    Inside = 5,
    /// After MPI_Finalize, in the program's code or ended.
    Over = 6,
}

impl State {
    /// From a slot's word.
    pub fn from_word(word: u64) -> State {
        match word {
            1 => State::Waiting,
            2 => State::AtEnd,
            3 => State::Finalizing,
            4 => State::Held,
            5 => State::Inside,
            6 => State::Over,
            _ => State::Running,
        }
    }
}

/// A number that changes whenever a rank makes a call or changes its state.
pub fn progress(slots: impl Iterator<Item = (State, u64)>) -> u64 {
    slots.fold(0, |sum, (state, calls)| stable::mix::<29, 32>(sum, calls << 3 ^ state as u64))
}

/// A board's words at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    words: Vec<u64>,
}

/// A word of a rank's slot.
fn word(slot: &[u64], at: usize) -> u64 {
    slot.get(at).copied().unwrap_or(0)
}

impl Snapshot {
    /// From the words of the board.
    pub fn new(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// From the bytes of the file.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word =
            |chunk: &[u8]| chunk.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Self { words: bytes.chunks_exact(8).map(word).collect() }
    }

    fn slots(&self) -> impl Iterator<Item = &[u64]> {
        self.words.chunks_exact(SLOT)
    }

    /// The state of each rank, and the number of its calls.
    pub fn states(&self) -> impl Iterator<Item = (State, u64)> + '_ {
        self.slots().map(|slot| (State::from_word(word(slot, STATE)), word(slot, CALLS)))
    }

    /// The function of each rank that is in a call that is not recorded.
    fn functions(&self) -> impl Iterator<Item = usize> + '_ {
        let inside = |slot: &&[u64]| State::from_word(word(slot, STATE)) == State::Inside;
        self.slots().filter(inside).map(|slot| word(slot, FUNCTION) as usize)
    }

    /// A line for each rank.
    pub fn report(&self, name: impl Fn(usize) -> String) -> String {
        let mut report = String::new();
        for (rank, slot) in self.slots().enumerate() {
            let bytes = slot.iter().skip(TEXT).flat_map(|word| word.to_le_bytes());
            let text: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
            let text = String::from_utf8_lossy(&text);
            let what = match State::from_word(word(slot, STATE)) {
                State::Running => "is in the program's own code".to_owned(),
                State::Inside => format!("is in {}", name(word(slot, FUNCTION) as usize)),
                State::Waiting => format!("waits: {text}"),
                State::AtEnd => format!("is where its record ends: {text}"),
                State::Finalizing => "is in MPI_Finalize".to_owned(),
                State::Over => "is done with MPI".to_owned(),
                State::Held => format!("is held for a debugger: {text}"),
            };
            // Writing to a String cannot fail.
            let calls = word(slot, CALLS);
            let _ = write!(report, "\n  rank {rank} {what} (after {calls} MPI calls)");
        }
        report
    }
}

/// Watches a board from outside the ranks, and detects that the replay has stalled.
#[derive(Debug)]
pub struct Watch {
    patience: Duration,
    progress: u64,
    since: Option<Duration>,
}

impl Watch {
    /// A replay has stalled if all ranks have been in MPI without progress for this long.
    pub fn new(patience: Duration) -> Self {
        Self { patience, progress: 0, since: None }
    }

    /// Whether the replay has stalled at the time `now`. A rank in the program's code, before or after MPI_Finalize,
    /// counts as computing. A rank in a call for which `may_last` holds may take any time.
    pub fn is_over(
        &mut self,
        now: Duration,
        board: &Snapshot,
        may_last: impl Fn(usize) -> bool,
    ) -> bool {
        let works = |(state, _)| matches!(state, State::Running | State::Held | State::Over);
        let is_still = board.states().next().is_some()
            && !board.states().any(works)
            && !board.functions().any(may_last);
        let progress = progress(board.states());
        let since = match self.since {
            Some(since) if is_still && progress == self.progress => since,
            _ => now,
        };
        (self.progress, self.since) = (progress, Some(since));
        is_still && now.saturating_sub(since) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn board(slots: &[(State, u64, usize)]) -> Snapshot {
        let slot = |(state, calls, function): &(State, u64, usize)| {
            let mut words = vec![0; SLOT];
            (words[STATE], words[CALLS]) = (*state as u64, *calls);
            words[FUNCTION] = *function as u64;
            words[TEXT..TEXT + 2].copy_from_slice(&[u64::from_le_bytes(*b"a messag"), 0x65]);
            words
        };
        Snapshot::new(slots.iter().flat_map(slot).collect())
    }

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn ranks_that_all_hang_are_noticed_and_named() {
        let hangs =
            board(&[(State::Inside, 5, 1), (State::Waiting, 7, 0), (State::Finalizing, 1, 0)]);
        let mut watch = Watch::new(PATIENCE);
        assert!(!watch.is_over(after(3), &hangs, |_| false));
        assert!(!watch.is_over(after(12), &hangs, |_| false));
        assert!(watch.is_over(after(13), &hangs, |_| false));
        assert_eq!(
            hangs.report(|function| format!("f{function}")),
            "\n  rank 0 is in f1 (after 5 MPI calls)\n  rank 1 waits: a message (after 7 MPI calls)\n  \
             rank 2 is in MPI_Finalize (after 1 MPI calls)"
        );
    }

    #[test]
    fn a_thread_that_computes_progresses_or_is_held_does_not_stall_the_replay() {
        for other in [
            (State::Running, 5, 0),
            (State::Held, 5, 0),
            (State::Over, 5, 0),
            (State::Inside, 5, 2),
        ] {
            let board = board(&[(State::Inside, 5, 1), other]);
            let mut watch = Watch::new(PATIENCE);
            assert!((0..100).all(|second| !watch.is_over(after(second), &board, |f| f == 2)));
        }
        let mut watch = Watch::new(PATIENCE);
        let progresses = |second| board(&[(State::Inside, 5, 1), (State::Inside, second / 9, 1)]);
        assert!(
            (0..100).all(|second| !watch.is_over(after(second), &progresses(second), |_| false))
        );
        assert!(!watch.is_over(after(500), &Snapshot::default(), |_| false));
    }

    #[test]
    fn patience_starts_anew_after_a_computation() {
        let mut watch = Watch::new(PATIENCE);
        let waits = board(&[(State::Inside, 5, 1)]);
        assert!(!watch.is_over(after(0), &waits, |_| false));
        assert!(!watch.is_over(after(30), &board(&[(State::Running, 5, 1)]), |_| false));
        assert!(!watch.is_over(after(31), &waits, |_| false));
        assert!(!watch.is_over(after(40), &waits, |_| false));
        assert!(watch.is_over(after(41), &waits, |_| false));
    }
}
