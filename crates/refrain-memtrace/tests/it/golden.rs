//! Traces of every format version must stay readable: each is compared with the raw words in it, and with a
//! checksum of all of its references.

use refrain_memtrace::{MemoryTrace, verify};
use std::path::Path;

/// File, references, checksum.
const TRACES: &[(&str, u64, u64)] = &[
    ("compiled-v1", 1301, 8316649315658188345),
    ("dynamorio-v1", 1387, 3554743269789507854),
    ("ranks-v1", 506, 9515635070371626220),
    ("sealed-v1", 2805, 6960361039993518189),
    ("compiled-v2", 1301, 12253232156528068841),
    ("dynamorio-v2", 1387, 8596799022950602126),
    ("ranks-v2", 506, 6691776816808562732),
    ("sealed-v2", 2805, 5146480644546776813),
];

/// FNV-1a, word by word.
fn checksum(trace: &MemoryTrace) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |word: u64| sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3);
    for number in 0..trace.facts().processes.len() as u32 {
        let process = trace.process(number).expect("a process");
        for thread in process.trace.threads() {
            add(thread.into());
            for access in process.trace.references(thread) {
                let access = access.expect("a reference");
                let words = [access.kind as u64, access.size.into(), access.pc, access.address];
                words.into_iter().for_each(&mut add);
            }
        }
    }
    sum
}

#[test]
fn traces_of_every_version_are_read() {
    let mut found = Vec::new();
    for &(name, ..) in TRACES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let trace = MemoryTrace::open(&folder.join(format!("{name}.refrain"))).expect(name);
        let comparison = verify::compare(&trace).expect(name);
        assert_eq!((comparison.different, &comparison.differences[..]), (0, &[][..]), "{name}");
        assert_eq!(comparison.equal, trace.facts().references(), "{name}");
        found.push((name, comparison.equal, checksum(&trace)));
    }
    assert_eq!(found, TRACES);
}

/// The section of threads is written with the same bytes by every release, so that files can be compared.
#[test]
fn the_threads_of_traces_of_this_version_are_written_as_they_were() {
    for name in ["compiled-v2", "dynamorio-v2", "ranks-v2", "sealed-v2"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let trace = MemoryTrace::open(&folder.join(format!("{name}.refrain"))).expect(name);
        let section = trace.container().read_checked("threads").expect(name);
        let mut written = Vec::new();
        trace.merged().encode(&mut written);
        assert!(!written.is_empty() && written == section, "{name}");
    }
}
