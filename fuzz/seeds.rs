//! Writes initial inputs to `corpus/TARGET/`: traces of small programs and their components.

use flate2::read::DeflateDecoder;
use refrain_container::Container;
use refrain_format::state;
use refrain_order::clock::chunk::Head;
use refrain_order::frame::take_frame;
use refrain_rings::record::Record;
use refrain_signature::cells::{Cells, put_bytes};
use refrain_testing::random::Random;
use refrain_testing::{program, sample};
use refrain_timing::{Bounds, Calls, Mode, Scratch, encode};
use refrain_trace::assemble::Keep;
use refrain_trace::{Orders, Trace};
use std::io::Read as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let put = |target: &str, name: String, bytes: &[u8]| {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    let home = env::temp_dir().join(format!("refrain-seeds-{}", std::process::id()));
    for seed in 0..24 {
        let (parts, path) =
            (home.join(format!("{seed}.parts")), home.join(format!("{seed}.refrain")));
        fs::create_dir_all(&parts)?;
        let random = &mut Random::new(seed);
        let program = sample::program(random, 1 + seed as usize);
        let keep = if seed % 4 == 3 { Keep::Raw } else { Keep::Trace };
        sample::leave_parts(&parts, &program, 1 + seed as u32 % 5, keep);
        if sample::merge(&parts, &path, keep).is_err() {
            continue;
        }
        put("container", format!("{seed}"), &fs::read(&path)?)?;
        let Ok(container) = Container::open(&path) else { continue };
        for section in container.sections() {
            let content = container.read_checked(&section.name).map_err(io::Error::other)?;
            let name = section.name.replace('/', "-");
            put("structure", format!("{seed}-{name}"), &content)?;
        }
        let trace = Trace::open(&path).map_err(io::Error::other)?;
        let merged = trace.structure().map_err(io::Error::other)?;
        for (number, group) in merged.groups.iter().enumerate() {
            let name = |what: &str, i: usize| format!("{seed}-{number}-{what}{i}");
            let mut shared = vec![group.rows.len() as u8];
            refrain_grammar::share(&group.grammars).encode(&mut shared);
            put("grammar", name("shared", 0), &shared)?;
            for (i, grammar) in group.grammars.iter().enumerate() {
                let mut bytes = vec![group.rows.len() as u8];
                grammar.encode(&mut bytes);
                put("grammar", name("grammar", i), &bytes)?;
            }
            for (i, text) in group.strings.iter().enumerate() {
                let mut bytes = Vec::new();
                text.encode(&mut bytes);
                put("columns", name("text", i), &bytes)?;
            }
            let variants = group.rows.iter().flat_map(|row| &row.cells.variants);
            for (i, (_, column)) in variants.flat_map(|variant| &variant.columns).enumerate() {
                let mut bytes = Vec::new();
                column.encode(&mut bytes);
                put("columns", name("column", i), &bytes)?;
            }
        }
        for entry in fs::read_dir(&parts)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == state::EXTENSION) {
                put("state", format!("{seed}"), &state_seed(&fs::read(path)?, &program))?;
            }
        }
    }
    memory(&put)?;
    orders(&put)?;
    clocks(&put)?;
    times(&put)?;
    rings(&put)?;
    fs::remove_dir_all(home)
}

/// The input of target `state`: a state, and the records after it.
fn state_seed(state: &[u8], program: &[program::Op]) -> Vec<u8> {
    let process = program::Process::run(program, 1, 2);
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, &process.threads[0].log.bytes);
    let content = state::open(state).unwrap_or_default();
    let mut cells = Cells::new(content);
    // The state without the positions of its threads.
    cells.get_list(|cells| Some((cells.get_u32()?, cells.get_unsigned()?)));
    bytes.extend(cells.rest());
    bytes
}

/// Seeds from the golden memory traces.
fn memory(put: &impl Fn(&str, String, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let golden = "../crates/refrain-memtrace/tests/golden";
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(golden))? {
        let path = entry?.path();
        let container = Container::open(&path).map_err(io::Error::other)?;
        let read = |name: &str| container.read_checked(name).map_err(io::Error::other);
        let mut seed = Vec::new();
        // The section has the code of each program, with its users and length in front; the first has
        // one or two users of a byte, and a length of two.
        let code = read("code")?;
        let skipped = (3..=6).find(|at| {
            refrain_memtrace::code::Code::decode(&mut &code[*at..])
                .is_ok_and(|c| !c.blocks.is_empty())
        });
        for section in [&code[skipped.unwrap_or(0)..], &read("segments/0")?, &read("threads")?] {
            seed.extend((section.len() as u16).to_le_bytes());
            seed.extend(section);
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        put("memory", name, &seed)?;
    }
    Ok(())
}

/// Seeds from records by the causal method: the bodies of their frames.
fn orders(put: &impl Fn(&str, String, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/refrain-trace/tests/golden");
    for entry in fs::read_dir(golden)? {
        let path = entry?.path();
        let orders = Orders::open(&path).map_err(io::Error::other)?;
        for rank in &orders.ranks {
            let mut bytes = Vec::new();
            for body in rank.frames.bodies() {
                bytes.extend((body.len() as u16).to_le_bytes());
                bytes.extend(body);
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            put("orders", format!("{name}-{}", rank.rank), &bytes)?;
        }
    }
    Ok(())
}

/// Seeds from records by the clock method: the bodies of their frames, with uncompressed chunks.
fn clocks(put: &impl Fn(&str, String, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/refrain-order/tests/golden");
    for entry in fs::read_dir(golden)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let record = fs::read(&path)?;
        let (mut frames, mut all, mut number) = (&record[..], Vec::new(), 0);
        while let Ok(body) = take_frame(&mut frames) {
            let mut plain = body.to_vec();
            if let Ok(Some((_, chunk))) = Head::take(body) {
                plain.truncate(body.len() - chunk.len());
                DeflateDecoder::new(chunk).read_to_end(&mut plain)?;
            }
            let Ok(length) = u16::try_from(plain.len()) else { continue };
            let seed = [&length.to_le_bytes()[..], &plain].concat();
            put("clocks", format!("{name}-{number}"), &seed)?;
            all.extend(seed);
            number += 1;
        }
        put("clocks", name, &all)?;
    }
    Ok(())
}

/// Blocks of every mode that needs no other library.
fn times(put: &impl Fn(&str, String, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let random = &mut Random::new(1);
    for (number, mode) in
        [Mode::Lossless, Mode::Loop, Mode::Cfg, Mode::Hist].into_iter().enumerate()
    {
        for calls in [1, 7, 60, 200] {
            let terminals: Vec<u32> = (0..calls).map(|n| n % 3).collect();
            let mut some = |most| (0..calls).map(|_| random.next() % most).collect::<Vec<u64>>();
            let (gaps, durations) = (some(100_000), some(5_000));
            let calls = Calls {
                before: &[],
                terminals: &terminals,
                gaps: &gaps,
                durations: &durations,
                start: 1_000_000,
            };
            let mut seed = vec![0, terminals.len() as u8];
            seed.extend(terminals.iter().map(|terminal| *terminal as u8));
            encode(mode, &Bounds::default(), &calls, &mut Scratch::default(), &mut seed)
                .map_err(io::Error::other)?;
            put("times", format!("{number}-{}", terminals.len()), &seed)?;
        }
    }
    Ok(())
}

/// A ledger with some of the records, and the head of a ring with one part.
fn rings(put: &impl Fn(&str, String, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut ledger = Vec::new();
    for record in [
        Record::Module {
            module: 1,
            is_main: true,
            base: 4096,
            size: 99,
            path: b"a.out",
            build_id: b"id",
        },
        Record::Block { block: 1, references: &[0; 32] },
        Record::Segment { kind: 1, owner: 1, base: 4096, size: 64 },
        Record::Thread { thread: 0, tid: 7, ring: 4096 + (1 << 16), ring_bytes: 4096 + 8 * 1024 },
        Record::ThreadEnd { thread: 0 },
    ] {
        let (fixed, length, tails) = record.encode();
        ledger.extend([&fixed[..length], tails[0], tails[1]].concat());
        ledger.resize(ledger.len().next_multiple_of(8), 0);
    }
    let mut head = vec![0u8; 256];
    // One part was published: four words from the first on.
    head[32] = 1;
    head[192 + 8] = 4;
    let mut seed = (ledger.len() as u16).to_le_bytes().to_vec();
    seed.extend((head.len() as u16).to_le_bytes());
    seed.extend(head);
    seed.extend(ledger);
    put("rings", "records".to_owned(), &seed)
}
