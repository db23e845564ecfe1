//! The references of several threads in one order.
//!
//! A trace has the order of each thread's references, and no order between threads. Whoever needs one, such as
//! a simulation of shared caches, assumes how threads take turns.

use std::collections::VecDeque;

use crate::error::MemoryError;
use crate::trace::{Access, References};

/// How threads take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Each thread in turn makes this many references (at least one), until all have ended.
    RoundRobin(u64),
    /// One thread after the other, each from its beginning to its end.
    OneAfterTheOther,
}

/// Iterates over the references of several threads: the thread, and its reference.
#[derive(Clone, Debug)]
pub struct Interleaved<'a> {
    /// The first one's turn it is.
    streams: VecDeque<(u32, References<'a>)>,
    turn: u64,
    made: u64,
}

impl<'a> Interleaved<'a> {
    pub(crate) fn new(streams: VecDeque<(u32, References<'a>)>, turns: Turns) -> Self {
        let turn = match turns {
            Turns::RoundRobin(references) => references.max(1),
            Turns::OneAfterTheOther => u64::MAX,
        };
        Self { streams, turn, made: 0 }
    }
}

impl Iterator for Interleaved<'_> {
    type Item = Result<(u32, Access), MemoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.made == self.turn {
            self.streams.rotate_left(1);
            self.made = 0;
        }
        loop {
            let (thread, references) = self.streams.front_mut()?;
            if let Some(access) = references.next() {
                self.made += 1;
                return Some(access.map(|access| (*thread, access)));
            }
            self.streams.pop_front();
            self.made = 0;
        }
    }
}
