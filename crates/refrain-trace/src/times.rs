//! Copies the times of every call into the file.
//!
//! Processes write blocks of times beside their logs ([`refrain_encode::times`]), exactly or in a mode
//! that is cheap for the program. Here the blocks of a stream become a section, either unchanged or
//! recoded in the requested mode. Each stream has its own section, so that its times can be read alone.

use refrain_encode::sealed::Sealed;
use refrain_encode::times::Block;
use refrain_reader::TraceError;
use refrain_reader::decoder::times::Times;
pub use refrain_reader::timing::Wanted;
use refrain_reader::view::TaskView;
use refrain_signature::cells::put_unsigned;
use refrain_signature::setting::Setting;
use refrain_signature::times::{BEFORE, BLOCK, EXACT_EVERY, Ends, Ids, put_starts};
use refrain_timing::{Bounds, Calls, Mode, Scratch, TimingError};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// The blocks of a stream.
pub struct StreamTimes {
    /// The stream's index in the trace.
    pub stream: usize,
    /// The blocks.
    pub blocks: Vec<Block>,
    /// The file with the spilled blocks.
    pub spilled: PathBuf,
}

impl StreamTimes {
    /// The bytes of the section.
    pub fn reader(&self) -> impl Read + '_ {
        let mut blocks = self.blocks.iter();
        let next = move || blocks.next().map(|block| self.block(block));
        Chain { next, current: None }
    }

    fn block<'a>(&self, block: &'a Block) -> io::Result<Box<dyn Read + 'a>> {
        let (length, bytes): (u64, Box<dyn Read>) = match &block.bytes {
            Sealed::InMemory(bytes) => (bytes.len() as u64, Box::new(bytes.as_slice())),
            Sealed::Spilled { at, length } => {
                let mut file = File::open(&self.spilled)?;
                file.seek(SeekFrom::Start(*at))?;
                (*length, Box::new(file.take(*length)))
            }
        };
        let mut head = Vec::new();
        put_unsigned(&mut head, block.calls.into());
        put_unsigned(&mut head, length);
        Ok(Box::new(Cursor::new(head).chain(bytes)))
    }

    /// Recodes the blocks in another mode. `tick` is a tick in nanoseconds.
    pub fn recoded(
        self,
        task: &TaskView<'_>,
        wanted: &Wanted,
        tick: f64,
    ) -> Result<StreamTimes, TraceError> {
        let bad = |why: String| TraceError::Times { path: self.spilled.clone(), why };
        let mut bounds = Bounds::relative(wanted.setting.relative)
            .map_err(|why| bad(why.to_string()))?
            .with_absolute((wanted.absolute / tick).floor().max(0.0) as u64);
        let mut times = Times::new(task, Box::new(self.reader()));
        let (mut ids, mut known, mut ends) = (Ids::default(), 0, Ends::default());
        let mut recoder = Recoder { mode: wanted.setting.mode, ..Recoder::default() };
        while let Some(call) = times.next_call().map_err(|why| bad(why.to_string()))? {
            let id = ids.id(call.terminal);
            if id >= known {
                known = id + 1;
                if let Some(bound) = own_bound(task, call.terminal, &wanted.setting) {
                    bounds.set(id, bound).map_err(|why| bad(why.to_string()))?;
                }
            }
            if recoder.called.len() == BLOCK || (call.start.is_some() && !recoder.called.is_empty())
            {
                recoder.seal(&bounds).map_err(|why| bad(why.to_string()))?;
            }
            let depth = task.head(call.terminal).map_or(0, |head| head.depth);
            let start = call.start.unwrap_or(ends.before(depth).wrapping_add(call.gap));
            ends.note(depth, start.wrapping_add(call.duration));
            match recoder.called.len() {
                0 => recoder.start = start,
                n if n.is_multiple_of(EXACT_EVERY) => recoder.starts.push(start),
                _ => {}
            }
            recoder.called.push(id);
            recoder.gaps.push(call.gap);
            recoder.durations.push(call.duration);
        }
        recoder.seal(&bounds).map_err(|why| bad(why.to_string()))?;
        drop(times);
        Ok(StreamTimes { blocks: recoder.blocks, ..self })
    }
}

fn own_bound(task: &TaskView<'_>, terminal: u32, setting: &Setting) -> Option<f64> {
    let function = task.function(task.head(terminal)?.function)?;
    setting.own_bound(&function.def.name)
}

/// Collects calls into blocks.
struct Recoder {
    mode: Mode,
    before: Vec<u32>,
    called: Vec<u32>,
    gaps: Vec<u64>,
    durations: Vec<u64>,
    start: u64,
    starts: Vec<u64>,
    blocks: Vec<Block>,
    scratch: Scratch,
}

impl Default for Recoder {
    fn default() -> Recoder {
        Recoder {
            mode: Mode::Lossless,
            before: Vec::new(),
            called: Vec::new(),
            gaps: Vec::new(),
            durations: Vec::new(),
            start: 0,
            starts: Vec::new(),
            blocks: Vec::new(),
            scratch: Scratch::default(),
        }
    }
}

impl Recoder {
    fn seal(&mut self, bounds: &Bounds) -> Result<(), TimingError> {
        if self.called.is_empty() {
            return Ok(());
        }
        let calls = Calls {
            before: &self.before,
            terminals: &self.called,
            gaps: &self.gaps,
            durations: &self.durations,
            start: self.start,
        };
        let mut bytes = Vec::new();
        put_starts(self.start, self.starts.drain(..), &mut bytes);
        refrain_timing::encode(self.mode, bounds, &calls, &mut self.scratch, &mut bytes)?;
        let calls = self.called.len() as u32;
        self.blocks.push(Block { calls, bytes: Sealed::InMemory(bytes) });
        self.before.append(&mut self.called);
        self.before.drain(..self.before.len().saturating_sub(BEFORE));
        self.gaps.clear();
        self.durations.clear();
        Ok(())
    }
}

/// Concatenates readers, each of which is made when it is needed.
struct Chain<'a, F> {
    next: F,
    current: Option<Box<dyn Read + 'a>>,
}

impl<'a, F: FnMut() -> Option<io::Result<Box<dyn Read + 'a>>>> Read for Chain<'a, F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(current) = &mut self.current {
                let read = current.read(into)?;
                if read > 0 || into.is_empty() {
                    return Ok(read);
                }
            }
            match (self.next)() {
                Some(reader) => self.current = Some(reader?),
                None => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requested_setting_is_stored_as_text_and_described_in_words() {
        let wanted = Wanted::from_text("loop 0.1 MPI_Send=0.015\n10000\n").expect("a setting");
        assert_eq!(Wanted::from_text(&wanted.to_text()), Some(wanted.clone()));
        assert_eq!(wanted.bound(), "within 10 %, MPI_Send 1.5 %");
        let bound = |text: &str| Wanted::from_text(text).map(|wanted| wanted.bound());
        assert_eq!(bound("lossless 0.1\n1e4\n").as_deref(), Some("exact"));
        assert_eq!(bound("zfp 0.1\n500\n").as_deref(), Some("within 0.5 us"));
        for bad in ["", "loop 0.1", "loop 0.1\n-1\n", "loop 0.1\nx\n", "loop\n1\n"] {
            assert_eq!(bound(bad), None, "{bad}");
        }
    }
}
