//! The order of events in a log: starts and returns of calls, new and freed memory.
//!
//! Only heads and times are read here; [`refrain_reader::raw`] reads values.

use refrain_format::record::{HEAD, PLAIN, Tag};
use std::io::{self, Read};

/// An event in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A call begins.
    Enter {
        /// The number of calls that contain it.
        depth: u8,
    },
    /// A call returns.
    Leave {
        /// The low half of its number in the log.
        number: u32,
    },
    /// A memory segment that later records use.
    Segment {
        /// Its first address.
        base: u64,
        /// Its length.
        bytes: u64,
        /// The address from which offsets are counted.
        anchor: u64,
    },
    /// A segment was freed.
    Release {
        /// Its first address.
        base: u64,
    },
}

/// The marks of a log, each with its time.
pub struct Marks<R> {
    input: R,
    entered: u32,
    body: Vec<u8>,
}

/// The most bytes of a record that are read.
const MOST_READ: u64 = 64;

impl<R: Read> Marks<R> {
    /// The marks of this log.
    pub fn new(input: R) -> Marks<R> {
        Marks { input, entered: 0, body: Vec::new() }
    }

    /// The next mark and its time; `None` at the end of the log or where it is damaged.
    pub fn next_mark(&mut self) -> io::Result<Option<(u64, Mark)>> {
        loop {
            let mut head = [0; HEAD];
            match self.input.read_exact(&mut head) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            }
            let tag = Tag::from_byte(head[2]).filter(|tag| *tag != Tag::End);
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let (Some(tag), Some(content)) = (tag, u64::from(length).checked_sub(HEAD as u64))
            else {
                return Ok(None);
            };
            self.body.clear();
            let looked_at = content.min(MOST_READ);
            self.input.by_ref().take(looked_at).read_to_end(&mut self.body)?;
            io::copy(&mut self.input.by_ref().take(content - looked_at), &mut io::sink())?;
            let word = |at: usize| self.body.get(at..)?.first_chunk().copied();
            let word = |at: usize| word(at).map_or(0, u64::from_le_bytes);
            let mark = match tag {
                Tag::Enter | Tag::EnterAt => {
                    self.entered = self.entered.wrapping_add(1);
                    Mark::Enter { depth: head[3] }
                }
                Tag::Leave if head[3] == PLAIN => {
                    Mark::Leave { number: self.entered.wrapping_sub(1) }
                }
                Tag::Leave => Mark::Leave { number: word(16) as u32 },
                Tag::Segment => Mark::Segment { base: word(8), bytes: word(16), anchor: word(24) },
                Tag::Release => Mark::Release { base: word(8) },
                Tag::End | Tag::Define | Tag::Handles | Tag::Members | Tag::Site => continue,
            };
            return Ok(Some((word(0), mark)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_format::record::head;

    fn record(tag: Tag, detail: u8, words: &[u64]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = head(0, tag, detail, HEAD + body.len()).to_le_bytes().to_vec();
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_log_gives_its_marks_in_order() {
        let log = [
            record(Tag::Define, 0, &[]),
            record(Tag::Segment, 0, &[1, 100, 10, 105]),
            record(Tag::Enter, 0, &[2, 7]),
            record(Tag::Enter, 1, &[3]),
            record(Tag::Leave, PLAIN, &[4]),
            record(Tag::Leave, 0, &[5, 1, 0]),
            record(Tag::Release, 0, &[6, 100]),
            vec![0; HEAD],
        ]
        .concat();
        let mut marks = Marks::new(log.as_slice());
        let all: Vec<_> = std::iter::from_fn(|| marks.next_mark().unwrap()).collect();
        assert_eq!(
            all,
            [
                (1, Mark::Segment { base: 100, bytes: 10, anchor: 105 }),
                (2, Mark::Enter { depth: 0 }),
                (3, Mark::Enter { depth: 1 }),
                (4, Mark::Leave { number: 1 }),
                (5, Mark::Leave { number: 0 }),
                (6, Mark::Release { base: 100 }),
            ]
        );
    }
}
