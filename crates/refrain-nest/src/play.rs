//! The calls of a folded nest in the order of their execution.

use crate::Nest;
use crate::folded::Folded;
use crate::seq::Values;

/// A step of the walk through a nest.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call.
    Call {
        skeleton: u32,
        /// Its value vector.
        values: usize,
    },
    /// A loop begins; the step after its body.
    Enter { counts: usize, after: usize },
    /// A body ends; its first step.
    Again { body: usize },
}

/// The calls of a nest: skeleton and value. It takes memory for the nest, not for the calls.
#[derive(Clone, Debug)]
pub struct Play<'a> {
    steps: Vec<Step>,
    values: Vec<Values<'a, u32>>,
    counts: Vec<Values<'a, u64>>,
    at: usize,
    /// For each loop that is being executed, the iterations after this one.
    left: Vec<u64>,
}

impl<'a> Play<'a> {
    /// From the first call on.
    pub fn new(body: &'a [Folded]) -> Play<'a> {
        let mut play = Play {
            steps: Vec::new(),
            values: Vec::new(),
            counts: Vec::new(),
            at: 0,
            left: Vec::new(),
        };
        play.add(body);
        play
    }

    fn add(&mut self, body: &'a [Folded]) {
        for node in body {
            match node {
                Nest::Leaf(visits) => {
                    let values = self.values.len();
                    self.values.push(visits.values.iter());
                    self.steps.push(Step::Call { skeleton: visits.skeleton, values });
                }
                Nest::Loop { count, body } => {
                    let enter = self.steps.len();
                    let counts = self.counts.len();
                    self.counts.push(count.iter());
                    self.steps.push(Step::Enter { counts, after: 0 });
                    self.add(body);
                    self.steps.push(Step::Again { body: enter + 1 });
                    self.steps[enter] = Step::Enter { counts, after: self.steps.len() };
                }
                Nest::Block(_) => {}
            }
        }
    }
}

impl Iterator for Play<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        loop {
            let step = *self.steps.get(self.at)?;
            self.at += 1;
            match step {
                Step::Call { skeleton, values } => {
                    let value = self.values.get_mut(values)?.next()?;
                    return Some((skeleton, value));
                }
                Step::Enter { counts, after } => match self.counts.get_mut(counts)?.next()? {
                    0 => self.at = after,
                    count => self.left.push(count - 1),
                },
                Step::Again { body } => match self.left.last_mut() {
                    Some(left) if *left > 0 => {
                        *left -= 1;
                        self.at = body;
                    }
                    _ => {
                        self.left.pop();
                    }
                },
            }
        }
    }
}
