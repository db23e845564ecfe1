//! Reads a trace of memory references.

use crate::bytes::take_text;
use crate::code::Code;
use crate::error::{TraceError, within};
use crate::process::{ProcessFacts, VERSION, decode_numbers};
use crate::{sealed, sections};
use refrain_bytes::varint::{put, put_bytes, put_signed, take, take_bytes, take_signed, take_u32};
use refrain_container::Container;
use refrain_memory::{Processes, Segments, Trace};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Facts about a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The version of Refrain that wrote it.
    pub refrain: String,
    /// The command.
    pub command: Vec<String>,
    /// How it ended.
    pub exit_code: Option<i32>,
    /// The options that selected what to record.
    pub selected: Vec<String>,
    /// What is missing, and why.
    pub lost: Vec<String>,
    /// How many processes have an entry in the section of code.
    pub codes: u64,
    /// The processes.
    pub processes: Vec<ProcessFacts>,
    /// Microseconds of merging the processes.
    pub merging: u64,
}

/// Seconds that the stages of compression took (ScalaMemTrace §5).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stages {
    /// Within threads, summed over all threads.
    pub intra_thread: f64,
    /// Merging the threads of each process, summed over all processes.
    pub inter_thread: f64,
    /// Merging the processes.
    pub inter_process: f64,
}

impl Facts {
    /// References of all processes.
    pub fn references(&self) -> u64 {
        self.processes.iter().map(|process| process.references).sum()
    }

    /// Threads of all processes.
    pub fn threads(&self) -> usize {
        self.processes.iter().map(|process| process.threads as usize).sum()
    }

    /// How long the stages of compression took.
    pub fn stages(&self) -> Stages {
        let seconds = |micros: u64| micros as f64 * 1e-6;
        let sum = |of: fn(&ProcessFacts) -> u64| seconds(self.processes.iter().map(of).sum());
        Stages {
            intra_thread: sum(|process| process.stages.0),
            inter_thread: sum(|process| process.stages.1),
            inter_process: seconds(self.merging),
        }
    }

    /// The bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, VERSION);
        put_bytes(&mut out, self.refrain.as_bytes());
        put_signed(&mut out, self.exit_code.map_or(-1, i64::from));
        for texts in [&self.command, &self.selected, &self.lost] {
            put(&mut out, texts.len() as u64);
            texts.iter().for_each(|text| put_bytes(&mut out, text.as_bytes()));
        }
        put(&mut out, self.codes);
        put(&mut out, self.processes.len() as u64);
        self.processes.iter().for_each(|process| process.encode(&mut out));
        put(&mut out, self.merging);
        out
    }

    /// Reads bytes.
    pub fn from_bytes(mut input: &[u8]) -> Result<Self, TraceError> {
        let input = &mut input;
        let version = match take(input)? {
            version @ 1..=VERSION => version,
            version => return Err(TraceError::Newer(version)),
        };
        let refrain = take_text(input)?;
        let exit_code = i32::try_from(take_signed(input)?).ok().filter(|code| *code >= 0);
        let mut texts = [const { Vec::new() }; 3];
        for list in &mut texts {
            for _ in 0..take(input)? {
                list.push(take_text(input)?);
            }
        }
        let [command, selected, lost] = texts;
        let codes = take(input)?;
        let mut processes = Vec::new();
        for _ in 0..take(input)? {
            processes.push(ProcessFacts::decode(input, version)?);
        }
        let merging = if version > 1 { take(input)? } else { 0 };
        Ok(Self { refrain, command, exit_code, selected, lost, codes, processes, merging })
    }
}

/// A trace of memory references.
#[derive(Debug)]
pub struct MemoryTrace {
    container: Container,
    facts: Facts,
    codes: BTreeMap<u32, Arc<Code>>,
    merged: Processes,
}

/// One process of a trace.
#[derive(Debug)]
pub struct ProcessTrace {
    /// Its code.
    pub code: Arc<Code>,
    /// Its references.
    pub trace: Trace,
}

impl MemoryTrace {
    /// Whether a container holds memory references.
    pub fn is_in(container: &Container) -> bool {
        container.sections().iter().any(|section| section.name == sections::MEMORY)
    }

    /// Opens a trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::of(Container::open(path)?)
    }

    /// The trace in a container.
    pub fn of(container: Container) -> Result<Self, TraceError> {
        let facts = Facts::from_bytes(&container.read_checked(sections::MEMORY)?)?;
        let code = container.read_checked(sections::CODE)?;
        let input = &mut &code[..];
        let mut codes = BTreeMap::new();
        for _ in 0..take(input)? {
            let mut users = Vec::new();
            for _ in 0..take(input)? {
                users.push(take_u32(input, "process")?);
            }
            let code = Arc::new(Code::decode(&mut take_bytes(input)?)?);
            codes.extend(users.into_iter().map(|user| (user, code.clone())));
        }
        let threads = container.read_checked(sections::THREADS)?;
        let merged = within(sections::THREADS, Processes::decode(&mut &threads[..]))?;
        Ok(Self { container, facts, codes, merged })
    }

    /// The file.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The threads' chunks of all processes.
    pub fn merged(&self) -> &Processes {
        &self.merged
    }

    /// Whether raw words were kept.
    pub fn has_raw(&self) -> bool {
        self.container.sections().iter().any(|section| section.name.starts_with(sections::RAW))
    }

    /// The code of a process.
    pub fn code(&self, number: u32) -> Arc<Code> {
        self.codes.get(&number).cloned().unwrap_or_default()
    }

    /// A process.
    pub fn process(&self, number: u32) -> Result<ProcessTrace, TraceError> {
        let code = self.code(number);
        let name = format!("{}{number}", sections::SEGMENTS);
        let bytes = self.container.read_checked(&name)?;
        let segments = within(&name, Segments::decode(&mut &bytes[..]))?;
        let merged = within(sections::THREADS, self.merged.process(number))?;
        let mut sealed: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
        let name = format!("{}{number}", sections::SEALED);
        if self.has(&name) {
            for (thread, chunk) in sealed::chunks(&self.container.read_checked(&name)?) {
                sealed.entry(thread).or_default().push(chunk.to_vec());
            }
        }
        let name = format!("{}{number}", sections::NUMBERS);
        let numbers = match self.has(&name) {
            true => Some(decode_numbers(&self.container.read_checked(&name)?)?),
            false => None,
        };
        let blocks = code.blocks.clone();
        Ok(ProcessTrace { code, trace: Trace { blocks, segments, sealed, merged, numbers } })
    }

    /// Whether some process has sealed chunks.
    pub(crate) fn has_sealed(&self) -> bool {
        self.container.sections().iter().any(|section| section.name.starts_with(sections::SEALED))
    }

    fn has(&self, name: &str) -> bool {
        self.container.sections().iter().any(|section| section.name == name)
    }
}
