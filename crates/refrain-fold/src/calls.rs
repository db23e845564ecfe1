//! Sequences of calls, call by call: for programs in which chance decides which call comes next.
//!
//! The next call is guessed from the last one to six calls. A terminal that has come often has a place of its own, so
//! that what follows it by chance costs what chance costs, and what follows it always costs nothing.

use crate::numbers::{Followers, GUESSES, Guesses, Numbers, Place, Series, context};
use refrain_bytes::range::Coder;
use refrain_grammar::{Grammar, Sequitur};

/// Terminals that came as often have a place of their own.
const OFTEN: u32 = 4;
/// How many different successors of a terminal are remembered.
const SUCCESSORS: usize = 5;
/// How many calls before it predict a call, at most.
const ORDERS: [usize; 4] = [2, 3, 4, 6];

/// Codes sequences.
#[derive(Debug, Default)]
pub(crate) struct CallCoder {
    followers: Followers,
    lengths: Numbers,
    spelled: Numbers,
    /// By skeleton.
    places: Vec<Place>,
    skeletons: Series,
    most_skeleton: i64,
    tasks: u64,
}

/// A terminal of the task.
#[derive(Debug, Default)]
struct Terminal {
    skeleton: u32,
    times: u32,
    own: Option<Box<Place>>,
    successors: [i64; SUCCESSORS],
}

impl CallCoder {
    /// Codes the sequence of a task, of at most `most` calls. Returns its grammar and the skeletons of its terminals.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        given: Option<(&[Grammar], &[u32])>,
        most: &mut u64,
    ) -> Option<(Grammar, Vec<u32>)> {
        self.tasks += 1;
        let salt = self.tasks << 8;
        let (grammars, skeletons) = given.unwrap_or_default();
        let length = grammars.iter().map(Grammar::len).sum();
        let length = self.lengths.code(coder, length);
        *most = most.checked_sub(length)?;
        let mut calls = grammars.iter().flatten();
        let mut sequitur = Sequitur::new();
        let mut terminals: Vec<Terminal> = Vec::new();
        let mut last = [-1i64; 6];
        for _ in 0..length {
            let before = usize::try_from(last[0]).ok();
            let contexts = ORDERS.map(|order| context(salt | order as u64, &last[..order]));
            let known = terminals.len() as i64;
            let mut guesses: Guesses = [known; GUESSES];
            for (guess, context) in guesses.iter_mut().zip(&contexts) {
                *guess = self.followers.get(*context);
            }
            guesses[5] = last[0] + 1;
            if let Some(before) = before.and_then(|at| terminals.get(at)) {
                guesses[6..6 + SUCCESSORS].copy_from_slice(&before.successors);
            }
            let skeleton = before.and_then(|at| terminals.get(at)).map_or(0, |t| t.skeleton + 1);
            if self.places.len() <= skeleton as usize {
                self.places.resize(skeleton as usize + 1, Place::default());
            }
            let shared = self.places.get_mut(skeleton as usize)?;
            let place = match before.and_then(|at| terminals.get_mut(at)) {
                Some(Terminal { own, times, .. }) if *times >= OFTEN => {
                    &mut **own.get_or_insert_with(|| Box::new(shared.clone()))
                }
                _ => shared,
            };
            let call = calls.next().map_or(0, i64::from);
            let call =
                place.code(coder, &guesses, &[0, last[0], known, known], &mut self.spelled, call);
            if call == known {
                let skeleton = skeletons.get(call as usize).copied().unwrap_or(0);
                let skeleton = self.code_skeleton(coder, &last, &terminals, skeleton)?;
                terminals.push(Terminal {
                    skeleton,
                    successors: [-1; SUCCESSORS],
                    ..Terminal::default()
                });
            }
            for context in contexts {
                self.followers.set(context, call);
            }
            if let Some(Terminal { successors, .. }) = before.and_then(|at| terminals.get_mut(at)) {
                let at = successors.iter().position(|other| *other == call);
                successors.copy_within(..at.unwrap_or(SUCCESSORS - 1), 1);
                successors[0] = call;
            }
            terminals.get_mut(usize::try_from(call).ok()?)?.times += 1;
            sequitur.push(call as u32);
            last.copy_within(..5, 1);
            last[0] = call;
        }
        Some((
            sequitur.grammar(),
            terminals.into_iter().map(|terminal| terminal.skeleton).collect(),
        ))
    }

    /// Codes the skeleton of a new terminal, from the skeletons of the calls before it.
    fn code_skeleton(
        &mut self,
        coder: &mut impl Coder,
        last: &[i64; 6],
        terminals: &[Terminal],
        given: u32,
    ) -> Option<u32> {
        let of = |call: i64| {
            let terminal = usize::try_from(call).ok().and_then(|call| terminals.get(call));
            terminal.map_or(-1, |terminal| terminal.skeleton.into())
        };
        let (one, two) = (of(last[0]), of(last[1]));
        let contexts = [context(0x21, &[one]), context(0x22, &[one, two])];
        let hints = [
            self.most_skeleton,
            self.followers.get(contexts[0]),
            self.followers.get(contexts[1]),
            one,
        ];
        let skeleton = self.skeletons.code(coder, &mut self.followers, 4, hints, given.into());
        contexts.iter().for_each(|context| self.followers.set(*context, skeleton));
        self.most_skeleton = self.most_skeleton.max(skeleton.checked_add(1)?);
        u32::try_from(skeleton).ok().filter(|skeleton| *skeleton < MOST_SKELETONS)
    }
}

/// More skeletons are taken for damage.
const MOST_SKELETONS: u32 = 1 << 22;
