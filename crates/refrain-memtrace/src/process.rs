//! Facts about one recorded process.

use crate::bytes::take_text;
use crate::error::TraceError;
use refrain_bytes::varint::{put, put_bytes, put_signed, take, take_signed, take_u32};

/// The version of the facts of a trace and of the states that recorders write. Earlier versions can be
/// read: version 1 had no times of stages, version 2 no counts of basic blocks, version 3 no open coded chunks in
/// states.
pub const VERSION: u64 = 4;

/// What the compressor knows about its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The rank that the launcher gave.
    pub rank: Option<u32>,
    /// The process number.
    pub pid: u32,
    /// Which image of the process: programs that replace themselves have several.
    pub image: u32,
    /// The machine.
    pub host: String,
    /// The program's file.
    pub program: String,
    /// The front end: [`refrain_rings::layout::DYNAMORIO`] or
    /// [`refrain_rings::layout::COMPILED`].
    pub front_end: u32,
    /// Nanoseconds since 1970 when it began, and when this was written.
    pub time: (u64, u64),
    /// How it ended.
    pub ended: Ended,
    /// Why the trace is truncated; empty if it is complete.
    pub lost: String,
    /// How many threads there were.
    pub threads: u32,
    /// References of all of them.
    pub references: u64,
    /// Microseconds of compressing, summed over all threads, and of merging the threads at the end.
    pub stages: (u64, u64),
    /// How many different basic blocks were executed: in recorded code, and in other code. Both are 0 if the front
    /// end does not count them.
    pub basic_blocks: (u32, u32),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// Not yet.
    #[default]
    Running,
    /// By an exit that the front end saw.
    Exited,
    /// Killed, or by an exit that the front end did not see.
    Died,
    /// By exec: the process became another program.
    Replaced,
}

impl ProcessFacts {
    /// Appends the facts.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.rank.map_or(0, |rank| u64::from(rank) + 1));
        put(out, u64::from(self.pid));
        put(out, u64::from(self.image));
        put_bytes(out, self.host.as_bytes());
        put_bytes(out, self.program.as_bytes());
        put(out, u64::from(self.front_end));
        put(out, self.time.0);
        put(out, self.time.1.saturating_sub(self.time.0));
        put(out, self.ended as u64);
        put_bytes(out, self.lost.as_bytes());
        put(out, u64::from(self.threads));
        put(out, self.references);
        put(out, self.stages.0);
        put(out, self.stages.1);
        put(out, u64::from(self.basic_blocks.0));
        put(out, u64::from(self.basic_blocks.1));
    }

    /// Decodes facts. `version` is that of the trace or state that contains them.
    pub fn decode(input: &mut &[u8], version: u64) -> Result<Self, TraceError> {
        let rank = take_u32(input, "rank")?.checked_sub(1);
        let (pid, image) = (take_u32(input, "process id")?, take_u32(input, "image")?);
        let (host, program) = (take_text(input)?, take_text(input)?);
        let front_end = take_u32(input, "front end")?;
        let began = take(input)?;
        let time = (began, began.saturating_add(take(input)?));
        let ended = match take(input)? {
            0 => Ended::Running,
            1 => Ended::Exited,
            3 => Ended::Replaced,
            _ => Ended::Died,
        };
        let lost = take_text(input)?;
        let (threads, references) = (take_u32(input, "number of threads")?, take(input)?);
        let stages = if version > 1 { (take(input)?, take(input)?) } else { (0, 0) };
        let basic_blocks = match version {
            ..3 => (0, 0),
            _ => (take_u32(input, "basic blocks")?, take_u32(input, "basic blocks")?),
        };
        Ok(Self {
            rank,
            pid,
            image,
            host,
            program,
            front_end,
            time,
            ended,
            lost,
            threads,
            references,
            stages,
            basic_blocks,
        })
    }
}

/// Appends new numbers of blocks, as differences.
pub fn encode_numbers(numbers: &[u32], out: &mut Vec<u8>) {
    let mut last = -1;
    for &number in numbers {
        put_signed(out, i64::from(number) - last);
        last = i64::from(number);
    }
}

/// Decodes new numbers of blocks.
pub fn decode_numbers(mut input: &[u8]) -> Result<Vec<u32>, TraceError> {
    let (mut numbers, mut last) = (Vec::new(), -1i64);
    while !input.is_empty() {
        last = last.wrapping_add(take_signed(&mut input)?);
        numbers.push(u32::try_from(last).map_err(|_| TraceError::Short)?);
    }
    Ok(numbers)
}
