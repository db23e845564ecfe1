//! Call sites that are nearly the same (approximate stack signatures, ScalaTrace II §3.3).
//!
//! A program that does the same in `solve_x`, `solve_y` and `solve_z` has three call sites for one step of its
//! algorithm. If a given number of frames may differ, they are one place of the nest, and three calls in a row a loop.
//! Frames are compared from the outermost one (`main`) on; frames that only one of two stacks has differ.

use std::collections::HashMap;

/// Numbers for call sites. Those of the same kind of call with few different frames get the same number.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// So many frames may differ.
    most: usize,
    /// The number of each kind and stack that has been asked for.
    known: HashMap<(Vec<u8>, Vec<u8>), u32>,
    /// For each kind the first stack of each number.
    first: HashMap<Vec<u8>, Vec<(Vec<u8>, u32)>>,
    numbers: u32,
}

impl Stacks {
    /// At most so many frames of a stack differ from the first one with its number.
    pub fn new(most: usize) -> Stacks {
        Stacks { most, ..Stacks::default() }
    }

    /// The number of a kind of call at a stack of frames: a line for each, innermost first.
    pub fn of(&mut self, kind: &[u8], stack: &[u8]) -> u32 {
        let name = (kind.to_vec(), stack.to_vec());
        if let Some(number) = self.known.get(&name) {
            return *number;
        }
        let first = self.first.entry(name.0.clone()).or_default();
        let is_alike = |known: &&(Vec<u8>, u32)| differing(&known.0, stack) <= self.most;
        let alike = match self.most {
            0 => None,
            _ => first.iter().find(is_alike).map(|(_, number)| *number),
        };
        let number = alike.unwrap_or_else(|| {
            let number = self.numbers;
            self.numbers += 1;
            first.push((stack.to_vec(), number));
            number
        });
        self.known.insert(name, number);
        number
    }
}

/// How many frames of two stacks differ, from the outermost one on.
fn differing(ours: &[u8], theirs: &[u8]) -> usize {
    let frames = |stack: &'_ [u8]| stack.split(|byte| *byte == b'\n').count();
    let mut mine = ours.rsplit(|byte| *byte == b'\n');
    let mut others = theirs.rsplit(|byte| *byte == b'\n');
    let same = mine.by_ref().zip(others.by_ref()).filter(|(a, b)| a == b).count();
    frames(ours).max(frames(theirs)) - same
}
