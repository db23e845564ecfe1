//! The compressor of one thread's stream.
//!
//! Recent executions, each a block or a nest, are on a stack. When the top of the stack repeats what is right
//! below it, the two become the first iterations of a loop. From then on the stream is matched against that
//! loop (`follow`). When the stream leaves the loop, the finished nest stays on the stack like a block. So
//! nests grow from the inside out, and while the outermost loop of a phase runs, nothing is searched.
//!
//! This is the matching of ScalaMemTrace §2.1 with two differences: candidates are found by their
//! shape, not by searching a window, and a reference inside a known loop is not pushed and matched
//! but only followed. The folding of like neighbours into loops whose numbers are affine in the
//! loops around them is that of Ketterlin and Clauss (nested loop recognition, CGO 2008). Here the numbers
//! need not be affine.
//!
//! Executions that leave the bottom of the stack are appended to the open chunk ([`crate::chunk`]).
//!
//! Where nests describe the stream poorly, its records are coded one by one instead, without a search for
//! loops ([`crate::irregular`]). Both ways are tried on the same stretch, and coded records are kept if
//! they are a fifth smaller. If coded records become so small that the stream must be regular again, nests
//! are tried again.

use std::collections::VecDeque;

use crate::block::Blocks;
use crate::chunk::Chunk;
use crate::error::MemoryError;
use crate::follow::{End, NOTHING, Running, Stop};
use crate::irregular::{self, CodedOrNests};
use crate::item::{Item, SMALL};
use crate::segment::{Segments, Window};
use crate::shapes::{ShapeId, Shapes};

/// The size of the stack. The longest loop body that can be found is half as long.
const STACK: usize = 512;
/// How many earlier executions of a shape are tried as the end of the previous repetition.
const CANDIDATES: usize = 8;
/// More shapes than this are a sign of irregular control; they are forgotten with the chunk.
const MOST_SHAPES: usize = 1 << 14;
/// A loop that ended after a few iterations this many times in a row is *doubted*:
const MOST_DOUBTS: u8 = 16;
/// from then on, this many repetitions are needed to make it.
const PROOFS: usize = 8;
/// When this many loops ended after a few iterations, a loop over several executions needs three repetitions;
const MOST_DOUBT: u8 = 64;
/// one loop with many iterations offsets this many loops that ended early.
const SURENESS: u8 = 4;
/// A chunk is full when it holds this many numbers.
pub const CHUNK_NUMBERS: usize = 1 << 21;
/// The size of the running nest is checked once per this many words.
const LOOK: usize = 1 << 16;
/// Coding is tried first when a chunk of nests holds this many numbers, and again each time it has four times as many.
const FIRST_TRIAL: usize = 1 << 17;
/// The fewest numbers of a finished chunk for which coding is tried.
const LAST_TRIAL: usize = 1 << 13;
/// Coding is tried if a chunk of nests holds at least one number per this many words of the stream.
const IRREGULAR: usize = 4;
/// The same for the last stretch of a chunk: this many numbers for this many words,
const IRREGULAR_STRETCH: (usize, usize) = (3, 10);
/// and at least this many words.
const IRREGULAR_WORDS: usize = 1 << 19;
/// A coded chunk is full when it stands for this many words.
const CODED_WORDS: u64 = 8 << 20;
/// If a coded chunk stands for at least this many words per byte, nests are tried again.
const REGULAR: u64 = 48;
/// An outline keeps this many runs of each stream: enough to see that the stream is irregular.
const OUTLINE_RUNS: usize = 1 << 12;
/// An outline keeps this many executions.
const OUTLINE_EXECUTIONS: usize = 1 << 22;

/// Compresses the stream of one thread.
#[derive(Clone, Debug)]
pub struct Compressor {
    shapes: Shapes,
    stack: VecDeque<Item>,
    /// The shape of each execution on the stack, and one more than the index of the previous execution of the
    /// same shape (0 for none). They are stored together, apart from the items, because they are searched.
    marks: VecDeque<(ShapeId, u64)>,
    /// How many executions have left the stack at its bottom.
    gone: u64,
    /// For each shape, one more than the index of its uppermost execution.
    uppermost: Vec<u64>,
    /// Where in its shape the top of the stack is, if it is a nest that is being followed.
    running: Option<Running>,
    windows: Vec<Vec<Window>>,
    /// For each shape of a loop, how many times in a row it ended after a few iterations.
    doubts: Vec<u8>,
    /// The same over all shapes.
    doubt: u8,
    /// Scratch space: the body of a loop that is being looked up.
    body: Vec<ShapeId>,
    /// Journals for reuse.
    spare: Vec<Vec<u64>>,
    chunk: Chunk,
    sealed: Vec<Vec<u8>>,
    chunk_numbers: usize,
    words_to_look: usize,
    /// The open coded chunk, if the stream is irregular.
    coded: Option<irregular::Writer>,
    /// How many words of the stream the open chunk of nests stands for.
    chunk_words: usize,
    /// Numbers and words of the open chunk at the last look.
    looked: (usize, usize),
    /// The same at the end of the last regular stretch.
    regular: (usize, usize),
    /// Coding is tried when the open chunk of nests holds this many numbers.
    next_trial: usize,
    /// Blocks of executions that have left the stack.
    executed: u64,
    /// Whether only the loops are kept, and not the values of irregular streams.
    is_outline: bool,
    /// How many executions an outline has dropped.
    dropped: u64,
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Compressor {
    /// A compressor whose chunks have the usual size.
    pub fn new() -> Self {
        Self::with_chunks_of(CHUNK_NUMBERS)
    }

    /// A compressor that seals a chunk when it holds about this many numbers.
    pub fn with_chunks_of(numbers: usize) -> Self {
        let numbers = numbers.clamp(256, CHUNK_NUMBERS);
        Self {
            shapes: Shapes::default(),
            stack: VecDeque::new(),
            marks: VecDeque::new(),
            gone: 0,
            uppermost: Vec::new(),
            running: None,
            windows: Vec::new(),
            doubts: Vec::new(),
            doubt: 0,
            body: Vec::new(),
            spare: Vec::new(),
            chunk: Chunk::default(),
            sealed: Vec::new(),
            chunk_numbers: numbers,
            words_to_look: LOOK.min(numbers),
            coded: None,
            chunk_words: 0,
            looked: (0, 0),
            regular: (0, 0),
            next_trial: FIRST_TRIAL,
            executed: 0,
            is_outline: false,
            dropped: 0,
        }
    }

    /// A compressor that never seals its chunk, in bounded memory: of irregular streams it keeps the first
    /// runs only. Its chunk has the loops of the whole stream, but cannot be decoded.
    pub(crate) fn outline() -> Self {
        Self { is_outline: true, ..Self::new() }
    }

    /// Appends an execution of a block.
    pub fn push(
        &mut self,
        block: u32,
        addresses: &[u64],
        blocks: &Blocks,
        segments: &Segments,
    ) -> Result<(), MemoryError> {
        let known = blocks.get(block).ok_or(MemoryError::UnknownBlock(u64::from(block)))?;
        if known.len() != addresses.len() {
            let (expected, actual) = (known.len(), addresses.len());
            return Err(MemoryError::Addresses { block, expected, actual });
        }
        let mut record = [0; 17];
        if let Some(record) = record.get_mut(..=addresses.len()) {
            record[0] = u64::from(block);
            record[1..].copy_from_slice(addresses);
            self.push_words(record, blocks, segments)?;
        } else {
            let record: Vec<u64> =
                std::iter::once(u64::from(block)).chain(addresses.iter().copied()).collect();
            self.push_words(&record, blocks, segments)?;
        }
        Ok(())
    }

    /// Appends records as a front end's ring holds them: a word with the block's number, then a
    /// word for each of its addresses. Returns how many words were used: all but a record that is
    /// not yet complete.
    pub fn push_words(
        &mut self,
        words: &[u64],
        blocks: &Blocks,
        segments: &Segments,
    ) -> Result<usize, MemoryError> {
        let mut used = 0;
        while used < words.len() {
            let end = words.len().min(used + self.words_to_look);
            let before = used;
            let whole = self.push_some(&words[used..end], blocks, segments);
            let (some, result) = whole;
            used += some;
            self.words_to_look = self.words_to_look.saturating_sub(some);
            self.chunk_words += some;
            result?;
            if some == 0 && end == words.len() {
                break;
            }
            if used == before || self.words_to_look == 0 {
                self.words_to_look = LOOK.min(self.chunk_numbers);
                self.look(blocks);
            }
        }
        Ok(used)
    }

    /// Appends whole records. Returns how many words they were, and whether an error ended them.
    fn push_some(
        &mut self,
        words: &[u64],
        blocks: &Blocks,
        segments: &Segments,
    ) -> (usize, Result<(), MemoryError>) {
        if self.coded.is_some() {
            return self.push_coded(words, blocks, segments);
        }
        let mut pos = 0;
        while pos < words.len() {
            if let (Some(running), Some(top)) = (&mut self.running, self.stack.back_mut()) {
                let (used, stop) = running.follow(top, &words[pos..], segments);
                pos += used;
                if stop == Stop::Hungry {
                    return (pos, Ok(()));
                }
                self.end_running(blocks);
                continue;
            }
            match self.push_block(&words[pos..], blocks, segments) {
                Ok(0) => return (pos, Ok(())),
                Ok(used) => pos += used,
                Err(error) => return (pos, Err(error)),
            }
        }
        (pos, Ok(()))
    }

    /// Puts the block of the first record on the stack. Returns the words of the record; 0 if it
    /// is not complete.
    fn push_block(
        &mut self,
        words: &[u64],
        blocks: &Blocks,
        segments: &Segments,
    ) -> Result<usize, MemoryError> {
        let block = u32::try_from(words[0]).map_err(|_| MemoryError::UnknownBlock(words[0]))?;
        let id = self.shapes.block(block, blocks)?;
        let shape = self.shapes.get(id).clone();
        let Some(addresses) = words.get(1..=shape.slots.len()) else { return Ok(0) };
        let at = block as usize;
        if at >= self.windows.len() {
            self.windows.resize(at + 1, Vec::new());
        }
        let windows = &mut self.windows[at];
        windows.resize(addresses.len(), Window::default());
        let mut journal = self.spare.pop().unwrap_or_default();
        journal.clear();
        journal.push(words[0]);
        let logical = addresses.iter().zip(windows);
        journal.extend(logical.map(|(&address, window)| segments.logical(address, window)));
        let used = journal.len();
        let series = Vec::new();
        let executed = 1;
        self.put(Item { id, shape, series, executed, entered: 0, journal, cut: false });
        self.fold(blocks);
        Ok(used)
    }

    /// Appends whole records to the coded chunk. Returns how many words they were, and whether an error ended
    /// them.
    fn push_coded(
        &mut self,
        words: &[u64],
        blocks: &Blocks,
        segments: &Segments,
    ) -> (usize, Result<(), MemoryError>) {
        let Some(coded) = &mut self.coded else { return (0, Ok(())) };
        let mut pos = 0;
        while let Some(&word) = words.get(pos) {
            let known =
                u32::try_from(word).ok().and_then(|block| Some((block, blocks.get(block)?)));
            let Some((block, references)) = known else {
                return (pos, Err(MemoryError::UnknownBlock(word)));
            };
            let end = pos + 1 + references.len();
            let Some(addresses) = words.get(pos + 1..end) else { break };
            let at = block as usize;
            if at >= self.windows.len() {
                self.windows.resize(at + 1, Vec::new());
            }
            let windows = &mut self.windows[at];
            windows.resize(addresses.len(), Window::default());
            let logical = addresses.iter().zip(windows);
            let logical = logical.map(|(&address, window)| segments.logical(address, window));
            if let Err(error) = coded.push(block, logical, blocks) {
                return (pos, Err(error));
            }
            pos = end;
        }
        (pos, Ok(()))
    }

    /// Ends the nest that is being followed, and checks whether it repeats what is below.
    fn end_running(&mut self, blocks: &Blocks) {
        let (Some(mut running), Some(mut top)) = (self.running.take(), self.take()) else { return };
        match running.end(&mut top) {
            End::Exit(0) => {}
            End::Exit(exit) => match self.shapes.with_exit(top.id, exit, blocks) {
                Some(id) => {
                    top.id = id;
                    top.shape = self.shapes.get(id).clone();
                }
                None => {
                    // Count the incomplete iteration, so that the player begins it.
                    top.series[0].last += 1;
                    top.series[0].first = Some(top.series[0].last);
                    top.cut = true;
                }
            },
            End::Cut => top.cut = true,
        }
        self.put(top);
        self.fold(blocks);
    }

    /// Pushes an execution; the oldest leaves a full stack.
    fn put(&mut self, item: Item) {
        let at = item.id as usize;
        if at >= self.uppermost.len() {
            self.uppermost.resize(at + 1, 0);
        }
        let index = self.gone + self.stack.len() as u64;
        let before = std::mem::replace(&mut self.uppermost[at], index + 1);
        self.marks.push_back((item.id, before));
        self.stack.push_back(item);
        if self.stack.len() > STACK
            && let Some(oldest) = self.stack.pop_front()
        {
            self.marks.pop_front();
            self.gone += 1;
            self.release(oldest);
        }
    }

    /// Appends an execution that leaves the stack to the chunk. If it is a loop of a few iterations, the loop is
    /// doubted from now on.
    fn release(&mut self, item: Item) {
        self.executed += item.executed;
        self.chunk.append(&item, &self.shapes);
        if !item.is_block() {
            let at = item.id as usize;
            if at >= self.doubts.len() {
                self.doubts.resize(at + 1, 0);
            }
            if item.is_small() {
                self.doubts[at] = self.doubts[at].saturating_add(1);
                self.doubt = self.doubt.saturating_add(1);
            } else {
                self.doubts[at] = 0;
                self.doubt = self.doubt.saturating_sub(SURENESS);
            }
        }
        if self.spare.len() < STACK {
            self.spare.push(item.journal);
        }
    }

    /// Whether the loop `id` over the top `length` executions is worth making. A doubted loop needs more
    /// repetitions.
    fn is_believed(&self, id: ShapeId, length: usize) -> bool {
        let doubts = self.doubts.get(id as usize).copied().unwrap_or(0);
        doubts < MOST_DOUBTS || self.is_repeated(length, PROOFS)
    }

    /// Whether the top `length` executions have the same shapes as the `length` below them, and these as the
    /// next `length`, and so on, `times` times.
    fn is_repeated(&self, length: usize, times: usize) -> bool {
        let end = self.marks.len();
        let alike = |i: usize| self.marks[end - 1 - i].0 == self.marks[end - 1 - i + length].0;
        end >= times * length && (length..times * length).all(alike)
    }

    /// Takes the top of the stack.
    fn take(&mut self) -> Option<Item> {
        let (id, before) = self.marks.pop_back()?;
        self.uppermost[id as usize] = before;
        self.stack.pop_back()
    }

    /// If the top of the stack repeats what is below it, makes a loop of the two.
    fn fold(&mut self, blocks: &Blocks) {
        let Some(length) = self.repeated() else { return };
        let end = self.stack.len();
        // Where control flow is irregular, two equal executions may be a coincidence.
        if length > 1 && self.doubt >= MOST_DOUBT && !self.is_repeated(length, 3) {
            return;
        }
        self.body.clear();
        self.body.extend(self.marks.range(end - length..).map(|mark| mark.0));
        let Some(id) = self.shapes.repeat(&self.body, blocks) else { return };
        if !self.is_believed(id, length) {
            return;
        }
        let mut second: Vec<Item> = (0..length).filter_map(|_| self.take()).collect();
        let mut first: Vec<Item> = (0..length).filter_map(|_| self.take()).collect();
        second.reverse();
        first.reverse();
        let all = || first.iter().chain(&second);
        let executed = all().map(|item| item.executed).sum();
        let entered = 1 + all().map(|item| item.entered).sum::<u64>();
        let mut journal = Vec::new();
        if executed <= SMALL {
            journal.reserve(all().map(|item| item.journal.len()).sum());
            all().for_each(|item| journal.extend_from_slice(&item.journal));
        }
        let shape = self.shapes.get(id).clone();
        let mut series = vec![crate::series::Series::new(0)];
        for (item, next) in first.into_iter().zip(second) {
            item.fold_into(next, &mut series);
        }
        self.running = Some(Running::new(&shape));
        self.put(Item { id, shape, series, executed, entered, journal, cut: false });
        self.nest(blocks);
    }

    /// If a loop that has just begun follows another execution of the same loop, it is the second
    /// iteration of a loop around both.
    fn nest(&mut self, blocks: &Blocks) {
        let end = self.stack.len();
        let (Some(top), Some(below)) =
            (self.stack.back(), end.checked_sub(2).and_then(|at| self.stack.get(at)))
        else {
            return;
        };
        if !below.folds_with(top) {
            return;
        }
        let Some(id) = self.shapes.repeat(&[top.id], blocks) else { return };
        let (Some(running), Some(second), Some(first)) =
            (self.running.take(), self.take(), self.take())
        else {
            return;
        };
        let shape = self.shapes.get(id).clone();
        self.running = Some(running.nested(&shape, &second));
        let executed = first.executed + second.executed;
        let entered = 1 + first.entered + second.entered;
        let mut journal = Vec::new();
        if executed <= SMALL {
            journal = [&first.journal[..], &second.journal[..]].concat();
        }
        let mut series = vec![crate::series::Series::new(0)];
        first.fold_into(second, &mut series);
        self.put(Item { id, shape, series, executed, entered, journal, cut: false });
    }

    /// How many executions on top of the stack are repeated right below.
    fn repeated(&self) -> Option<usize> {
        let end = self.marks.len();
        let (_, mut before) = *self.marks.back()?;
        for _ in 0..CANDIDATES {
            let at = before.checked_sub(1)?.checked_sub(self.gone)? as usize;
            let length = end - 1 - at;
            if length > at + 1 {
                return None;
            }
            let alike = |i: usize| self.marks[end - 1 - i].0 == self.marks[at - i].0;
            let folds = |i: usize| self.stack[at - i].folds_with(&self.stack[end - 1 - i]);
            if (0..length).all(alike) && (0..length).all(folds) {
                return Some(length);
            }
            before = self.marks[at].1;
        }
        None
    }

    /// Keeps memory within bounds: seals the chunk when it is full. Tries coding where it may be better.
    fn look(&mut self, blocks: &Blocks) {
        if self.is_outline {
            return self.trim(blocks);
        }
        if let Some(coded) = &self.coded {
            if coded.words() >= CODED_WORDS {
                let is_regular = coded.words() / (coded.size() as u64 + 1) >= REGULAR;
                self.seal_coded();
                if is_regular {
                    self.coded = None;
                    self.begin_chunk();
                }
            }
            return;
        }
        let waiting: usize = self.stack.back().map_or(0, Item::runs);
        let numbers = self.chunk.numbers() + waiting;
        if !self.is_irregular_since(self.looked, numbers) {
            self.regular = (numbers, self.chunk_words);
        }
        self.looked = (numbers, self.chunk_words);
        if numbers >= self.chunk_numbers || self.shapes.len() > MOST_SHAPES {
            self.seal(blocks);
        } else if numbers >= self.next_trial && self.is_irregular(numbers) {
            self.try_coding(blocks);
        }
    }

    /// Ends the stream of an outline. Returns its chunk, and how many executions the chunk lacks at its end.
    pub(crate) fn finish_outline(mut self, blocks: &Blocks) -> (Chunk, u64) {
        self.end_all(blocks);
        self.trim(blocks);
        (self.chunk, self.dropped)
    }

    /// Keeps memory within bounds without sealing: drops values of irregular streams.
    fn trim(&mut self, blocks: &Blocks) {
        self.stack.iter_mut().flat_map(|item| &mut item.series).for_each(|s| s.trim(OUTLINE_RUNS));
        self.dropped += self.chunk.trim(OUTLINE_RUNS, OUTLINE_EXECUTIONS);
        if self.shapes.len() > MOST_SHAPES {
            self.end_all(blocks);
            self.chunk.forget_shapes();
            self.forget_shapes();
        }
    }

    /// Whether the open chunk of nests got many numbers for its words since then. It holds `now` numbers.
    fn is_irregular_since(&self, (numbers, words): (usize, usize), now: usize) -> bool {
        let (numbers, words) = (now.saturating_sub(numbers), self.chunk_words - words);
        numbers * IRREGULAR_STRETCH.1 >= words * IRREGULAR_STRETCH.0
    }

    /// Whether the whole chunk is irregular, or what came since its last regular stretch is very much so. That
    /// must be long: the numbers of a nest are counted when it ends.
    fn is_irregular(&self, numbers: usize) -> bool {
        let is_long = self.chunk_words - self.regular.1 >= IRREGULAR_WORDS;
        numbers * IRREGULAR >= self.chunk_words
            || is_long && self.is_irregular_since(self.regular, numbers)
    }

    /// Whether coding is tried when the chunk ends. After a failed trial the chunk must have grown to four times its size.
    fn is_last_trial_due(&self, numbers: usize) -> bool {
        let has_failed = self.next_trial > FIRST_TRIAL && numbers < self.next_trial;
        numbers >= LAST_TRIAL && self.is_irregular(numbers) && !has_failed
    }

    /// Codes the records of the open chunk. If that is smaller, the following records are coded too.
    fn try_coding(&mut self, blocks: &Blocks) {
        let mut ended = self.clone();
        ended.end_all(blocks);
        match irregular::choose(ended.chunk.finish(), self.chunk_words as u64, blocks) {
            CodedOrNests::Coded(bytes) => {
                *self = ended;
                self.sealed.push(bytes);
                self.begin_chunk();
                self.forget_shapes();
                self.coded = Some(irregular::Writer::new());
            }
            CodedOrNests::Nests(_) => self.next_trial *= 4,
        }
    }

    /// Ends the open chunk, which then includes the executions on the stack. An irregular chunk is coded if that
    /// is smaller; then the following records are coded too.
    pub fn seal(&mut self, blocks: &Blocks) {
        if self.coded.is_some() {
            self.seal_coded();
            self.coded = Some(irregular::Writer::new());
            return;
        }
        self.end_all(blocks);
        if !self.chunk.is_empty() {
            let numbers = self.chunk.numbers();
            let finished = self.chunk.finish();
            self.sealed.push(if self.is_last_trial_due(numbers) {
                match irregular::choose(finished, self.chunk_words as u64, blocks) {
                    CodedOrNests::Nests(bytes) => bytes,
                    CodedOrNests::Coded(bytes) => {
                        if numbers >= FIRST_TRIAL {
                            self.coded = Some(irregular::Writer::new());
                        }
                        bytes
                    }
                }
            } else {
                finished.to_bytes()
            });
        }
        self.begin_chunk();
        if self.shapes.len() > MOST_SHAPES || self.coded.is_some() {
            self.forget_shapes();
        }
    }

    /// Seals the coded chunk, if there is one and it is not empty.
    pub fn seal_coded(&mut self) {
        self.seal_coded_of(0);
    }

    /// Seals the open coded chunk if it takes at least so many bytes.
    pub fn seal_coded_of(&mut self, bytes: usize) {
        if let Some(coded) =
            self.coded.take_if(|coded| coded.records() > 0 && coded.size() >= bytes)
        {
            self.executed += coded.records();
            self.sealed.push(coded.finish());
            self.coded = Some(irregular::Writer::new());
        }
    }

    fn begin_chunk(&mut self) {
        self.chunk = Chunk::default();
        self.chunk_words = 0;
        (self.looked, self.regular) = ((0, 0), (0, 0));
        self.next_trial = FIRST_TRIAL;
    }

    fn forget_shapes(&mut self) {
        self.shapes = Shapes::default();
        self.uppermost.clear();
        self.doubts.clear();
    }

    /// Ends the stream. An open irregular chunk is sealed. An open regular chunk stays open, to be merged with
    /// the chunks of other threads.
    pub fn settle(&mut self, blocks: &Blocks) {
        self.seal_coded();
        self.coded = None;
        self.end_all(blocks);
        let numbers = self.chunk.numbers();
        if self.is_last_trial_due(numbers)
            && let CodedOrNests::Coded(bytes) =
                irregular::choose(self.chunk.finish(), self.chunk_words as u64, blocks)
        {
            self.sealed.push(bytes);
            self.begin_chunk();
        }
    }

    fn end_all(&mut self, blocks: &Blocks) {
        while let (Some(running), Some(top)) = (&mut self.running, self.stack.back_mut()) {
            running.follow(top, &[NOTHING], &Segments::identity());
            self.end_running(blocks);
        }
        // A short stream keeps its loops, however small: other threads may have larger ones.
        let short = self.chunk.is_empty();
        self.marks.clear();
        while let Some(item) = self.stack.pop_front() {
            self.gone += 1;
            if short && !item.is_block() {
                self.executed += item.executed;
                self.chunk.append_nest(&item);
            } else {
                self.release(item);
            }
        }
    }

    /// How many executions of blocks were appended. The other words of the stream are addresses.
    pub fn executed(&self) -> u64 {
        let coded = self.coded.as_ref().map_or(0, irregular::Writer::records);
        self.executed + coded + self.stack.iter().map(|item| item.executed).sum::<u64>()
    }

    /// Removes and returns the chunks that were sealed since the last call, for the caller to write.
    pub fn take_sealed(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sealed)
    }

    /// The chunk of nests that is still open, as if the stream ended here. A recorder writes it from time to time,
    /// in place of the one before, to limit what a crash can lose. For a regular program it is as small as the
    /// whole trace. It does not include the open coded chunk: see [`Compressor::open_coded`].
    pub fn open_chunk(&self, blocks: &Blocks) -> Chunk {
        if self.coded.is_some() {
            return Chunk::default();
        }
        let mut copy = self.clone();
        copy.end_all(blocks);
        copy.chunk
    }

    /// The coded chunk that is still open, as if it ended here; `None` if there is none.
    pub fn open_coded(&self) -> Option<Vec<u8>> {
        let coded = self.coded.as_ref().filter(|coded| coded.records() > 0)?;
        Some(coded.so_far())
    }

    /// Ends the stream. Returns the sealed chunks that [`Compressor::take_sealed`] has not returned yet, and the
    /// open chunk, to be merged with the chunks of other threads.
    pub fn finish(mut self, blocks: &Blocks) -> (Vec<Vec<u8>>, Chunk) {
        self.settle(blocks);
        (self.sealed, self.chunk)
    }
}
