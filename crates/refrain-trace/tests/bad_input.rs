//! Readers refuse malformed files in bounded time and memory, and read everything that is undamaged.

#[path = "bad_input/limits.rs"]
mod limits;

use limits::{Counted, run_cases};
use refrain_container::{Codec, Container, Writer};
use refrain_format::state;
use refrain_testing::random::{Random, damage};
use refrain_testing::sample;
use refrain_testing::walk::walk;
use refrain_trace::Trace;
use refrain_trace::assemble::Keep;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// A folder for a hundred thousand files; in memory if possible.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    folder.unwrap()
}

/// A trace as a file and as sections.
struct Sample {
    bytes: Vec<u8>,
    sections: Vec<(String, Vec<u8>)>,
}

/// Traces of several programs on several ranks, some with raw records.
fn samples(folder: &Path) -> Vec<Sample> {
    let sample = |seed: u64| {
        let random = &mut Random::new(seed);
        let program = sample::program(random, 12 + 8 * seed as usize);
        let parts = folder.join(format!("{seed}.parts"));
        fs::create_dir(&parts).unwrap();
        let keep = if seed == 2 { Keep::Raw } else { Keep::Trace };
        sample::leave_parts(&parts, &program, 1 + seed as u32, keep);
        let path = folder.join(format!("{seed}.refrain"));
        let meta = sample::merge(&parts, &path, keep).unwrap();
        assert_eq!(meta.lost, [] as [String; 0]);
        let (events, errors) = walk(&path, usize::MAX).unwrap();
        assert_eq!(errors, [] as [String; 0]);
        assert!(events > 10, "{events}");
        let container = Container::open(&path).unwrap();
        let section = |name: &String| (name.clone(), container.read_checked(name).unwrap());
        let names = container.sections().iter().map(|section| &section.name);
        Sample { bytes: fs::read(&path).unwrap(), sections: names.map(section).collect() }
    };
    let samples: Vec<Sample> = (0..5).map(sample).collect();
    let has = |prefix: &str| {
        samples.iter().flat_map(|s| &s.sections).any(|(name, _)| name.starts_with(prefix))
    };
    assert!(has("own/") && has("raw/"));
    samples
}

/// Errors in an open container name the section.
fn check(path: &Path, events: usize) {
    for error in walk(path, events).into_iter().flat_map(|(_, errors)| errors) {
        assert!(error.contains("section `"), "{error}");
    }
}

#[test]
fn a_trace_truncated_at_any_byte_is_refused_or_read() {
    let home = scratch();
    let samples = samples(home.path());
    let shortest = &samples[0..3];
    let mut lengths: Vec<(&Sample, usize)> = Vec::new();
    shortest.iter().for_each(|s| lengths.extend((0..s.bytes.len()).map(|n| (s, n))));
    run_cases(lengths.len() as u64, scratch, |folder, case| {
        let (sample, length) = lengths[case as usize];
        let path = folder.path().join("truncated.refrain");
        fs::write(&path, &sample.bytes[..length]).unwrap();
        check(&path, 100);
    });
}

#[test]
fn a_damaged_trace_is_refused_or_read() {
    let home = scratch();
    let samples = samples(home.path());
    run_cases(100_000, scratch, |folder, case| {
        let random = &mut Random::new(case);
        let sample = &samples[random.below(samples.len())];
        let path = folder.path().join("damaged.refrain");
        if case % 4 == 0 {
            let mut bytes = sample.bytes.clone();
            damage(&mut bytes, random);
            fs::write(&path, bytes).unwrap();
        } else {
            let mut sections = sample.sections.clone();
            damage_sections(&mut sections, random, &samples);
            write_container(&path, &sections);
        }
        check(&path, if case % 64 == 0 { 10_000 } else { 100 });
    });
}

/// Damages section contents; their checksums will be correct.
fn damage_sections(sections: &mut Vec<(String, Vec<u8>)>, random: &mut Random, samples: &[Sample]) {
    let at = random.below(sections.len());
    let other = random.below(sections.len());
    match random.below(16) {
        // One section's content under another's name.
        0 => {
            let content = sections[other].1.clone();
            sections[at].1 = content;
        }
        // Another trace's section.
        1 => {
            let from = &samples[random.below(samples.len())].sections;
            if let Some(same) = from.iter().find(|(name, _)| *name == sections[at].0) {
                sections[at].1.clone_from(&same.1);
            }
        }
        2 => drop(sections.remove(at)),
        3 => sections.swap(at, other),
        // Residues under the numbers of other ranks.
        4 => sections[at].0 = format!("own/{}-{}", random.below(3), random.below(9)),
        // Most of a trace is structure.
        5..=10 => {
            let structure = sections.iter_mut().find(|(name, _)| name == "structure");
            structure.into_iter().for_each(|(_, content)| damage(content, random));
        }
        _ => damage(&mut sections[at].1, random),
    }
}

fn write_container(path: &Path, sections: &[(String, Vec<u8>)]) {
    let mut writer = Writer::create(path).unwrap();
    for (name, content) in sections {
        writer.add(name, Codec::Stored, &mut content.as_slice()).unwrap();
    }
    writer.finish().unwrap();
}

/// A folder of parts: names and contents.
type Parts = Vec<(String, Vec<u8>)>;

fn parts(seed: u64, ranks: u32) -> Parts {
    let folder = scratch();
    let program = sample::program(&mut Random::new(seed), 40);
    sample::leave_parts(folder.path(), &program, ranks, Keep::Trace);
    let file = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    let mut all: Parts = fs::read_dir(folder.path()).unwrap().flatten().map(file).collect();
    all.sort();
    all
}

/// The decoded calls of a rank's threads.
fn calls_of(trace: &Trace, rank: i32) -> Vec<String> {
    let streams = trace.meta().streams.iter().enumerate();
    let of_rank = streams.filter(|(_, stream)| stream.rank == rank);
    of_rank
        .flat_map(|(stream, _)| trace.decoded(stream).unwrap())
        .map(|event| format!("{:?}", event.unwrap()))
        .collect()
}

/// What is damaged in a part or a state.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    /// Headers of parts, and states with wrong checksums.
    Heads,
    /// Records, and states with correct checksums.
    Content,
}

#[test]
fn damaged_parts_and_states_leave_the_calls_of_other_ranks_intact() {
    damage_parts(Target::Heads);
}

#[test]
fn damaged_records_leave_the_calls_of_other_ranks_intact() {
    damage_parts(Target::Content);
}

fn damage_parts(target: Target) {
    const RANKS: u32 = 4;
    let samples: Vec<(Parts, Vec<Vec<String>>)> = (0..3)
        .map(|seed| {
            let (parts, folder) = (parts(seed, RANKS), scratch());
            let trace = merged(&parts, folder.path()).unwrap();
            let trace = Trace::open(&trace).unwrap();
            (parts, (0..RANKS as i32).map(|rank| calls_of(&trace, rank)).collect())
        })
        .collect();
    run_cases(1_500, scratch, |folder, case| {
        let random = &mut Random::new(case);
        let (parts, calls) = &samples[random.below(samples.len())];
        let mut parts = parts.clone();
        let at = random.below(parts.len());
        let rank = damage_part(&mut parts[at], target, random);
        let trace = merged(&parts, folder.path()).expect("a trace of what is undamaged");
        check(&trace, 1000);
        let trace = Trace::open(&trace).unwrap();
        // A part whose damaged header has another rank's number cannot be told from that rank.
        let ranks = trace.meta().streams.iter().map(|s| (s.rank, s.pid));
        let is_alone = |rank: i32| ranks.clone().all(|(r, pid)| r != rank || pid == 4000 + rank);
        for other in (0..RANKS as i32).filter(|other| *other != rank && is_alone(*other)) {
            assert_eq!(calls_of(&trace, other), calls[other as usize], "rank {other}");
        }
    });
}

/// Damages a part or a state; returns its rank.
fn damage_part((name, bytes): &mut (String, Vec<u8>), target: Target, random: &mut Random) -> i32 {
    if name.ends_with(state::EXTENSION) {
        let mut content = bytes.split_off(state::HEAD);
        damage(&mut content, random);
        bytes.extend(content);
        if target == Target::Content {
            state::seal(bytes);
        }
        let pid = name.split('.').nth(1).unwrap();
        return pid.parse::<i32>().unwrap() - 4000;
    }
    use refrain_format::part::{BODY, HEADER_BYTES, WINDOW_HEAD};
    // Most bytes of a part are unused.
    let window = HEADER_BYTES + WINDOW_HEAD;
    let stretch = match (target, random.below(2)) {
        (Target::Heads, 0) => 0..120,
        (Target::Heads, _) => HEADER_BYTES..window,
        (Target::Content, 0) => window..window + 2048,
        (Target::Content, _) => BODY.min(bytes.len() - 1)..bytes.len(),
    };
    let mut some = bytes[stretch.clone()].to_vec();
    damage(&mut some, random);
    if random.below(8) > 0 && stretch.end < bytes.len() {
        // The following bytes keep their offsets.
        some.resize(stretch.len(), 0);
    }
    drop(bytes.splice(stretch, some));
    name.split('.').next().unwrap().parse().unwrap()
}

fn merged(parts: &Parts, folder: &Path) -> Result<PathBuf, String> {
    let (from, to) = (folder.join("t.parts"), folder.join("t.refrain"));
    let _ = fs::remove_dir_all(&from);
    fs::create_dir(&from).unwrap();
    for (name, bytes) in parts {
        fs::write(from.join(name), bytes).unwrap();
    }
    sample::merge(&from, &to, Keep::Trace).map(|_| to)
}
