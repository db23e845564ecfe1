//! The C header says what the Rust side says.

use refrain_rings::layout::*;
use refrain_rings::record::Record;
use std::mem::{offset_of, size_of};
use std::process::Command;

/// Compiles and runs a C program that prints numbers.
fn numbers_of_c(expressions: &[&str]) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("header.c"), folder.path().join("header"));
    let prints: String = expressions
        .iter()
        .map(|e| format!("    printf(\"%llu\\n\", (unsigned long long)({e}));\n"))
        .collect();
    let code = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"refrain_rings.h\"\n\
         int main(void) {{\n{prints}    return 0;\n}}\n"
    );
    std::fs::write(&source, code).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let status = Command::new("cc")
        .args(["-Wall", "-Werror", "-I", include, "-o"])
        .args([&program, &source])
        .status()
        .expect("a C compiler");
    assert!(status.success());
    let output = Command::new(&program).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect()
}

macro_rules! same {
    ($(($c:expr, $rust:expr)),* $(,)?) => {
        let (c, rust) = ([$($c),*], [$($rust as u64),*]);
        for ((name, c), rust) in c.iter().zip(numbers_of_c(&c)).zip(rust) {
            assert_eq!(c, rust, "{name}");
        }
    };
}

#[test]
fn offsets_and_constants_are_the_same() {
    same![
        ("REFRAIN_RINGS_MAGIC", MAGIC),
        ("REFRAIN_RINGS_VERSION", VERSION),
        ("REFRAIN_CONTROL_BYTES", CONTROL_BYTES),
        ("REFRAIN_LEDGER_BYTES", LEDGER_BYTES),
        ("REFRAIN_RING_HEAD_BYTES", RING_HEAD_BYTES),
        ("REFRAIN_RING_PARTS", PARTS),
        ("REFRAIN_CHUNK_WORDS", CHUNK_WORDS),
        ("REFRAIN_CHUNKS", CHUNKS),
        ("REFRAIN_STATE_DONE", DONE),
        ("REFRAIN_STATE_GONE", GONE),
        ("REFRAIN_FRONT_END_DYNAMORIO", DYNAMORIO),
        ("REFRAIN_FRONT_END_COMPILED", COMPILED),
        ("offsetof(struct refrain_control, pid)", offset_of!(Control, pid)),
        ("offsetof(struct refrain_control, front_end)", offset_of!(Control, front_end)),
        ("offsetof(struct refrain_control, ledger_bytes)", offset_of!(Control, ledger_bytes)),
        ("offsetof(struct refrain_control, ledger_written)", offset_of!(Control, ledger_written)),
        ("offsetof(struct refrain_control, ended)", offset_of!(Control, ended)),
        ("offsetof(struct refrain_control, doorbell)", offset_of!(Control, doorbell)),
        ("offsetof(struct refrain_control, replaced)", offset_of!(Control, replaced)),
        ("offsetof(struct refrain_control, recorded_blocks)", offset_of!(Control, recorded_blocks)),
        ("offsetof(struct refrain_control, skipped_blocks)", offset_of!(Control, skipped_blocks)),
        ("offsetof(struct refrain_control, ledger_read)", offset_of!(Control, ledger_read)),
        ("offsetof(struct refrain_control, ledger_room)", offset_of!(Control, ledger_room)),
        (
            "offsetof(struct refrain_control, compressor_sleeps)",
            offset_of!(Control, compressor_sleeps)
        ),
        ("offsetof(struct refrain_control, compressor_pid)", offset_of!(Control, compressor_pid)),
        ("offsetof(struct refrain_control, state)", offset_of!(Control, state)),
        ("offsetof(struct refrain_control, ledger_waits)", offset_of!(Control, ledger_waits)),
        ("offsetof(struct refrain_ring, at)", offset_of!(RingHead, at)),
        ("offsetof(struct refrain_ring, end)", offset_of!(RingHead, end)),
        ("offsetof(struct refrain_ring, first)", offset_of!(RingHead, first)),
        ("offsetof(struct refrain_ring, words_at)", offset_of!(RingHead, words_at)),
        ("offsetof(struct refrain_ring, published)", offset_of!(RingHead, published)),
        ("offsetof(struct refrain_ring, waits)", offset_of!(RingHead, waits)),
        ("offsetof(struct refrain_ring, consumed)", offset_of!(RingHead, consumed)),
        ("offsetof(struct refrain_ring, room)", offset_of!(RingHead, room)),
        ("offsetof(struct refrain_ring, thread)", offset_of!(RingHead, thread)),
        ("offsetof(struct refrain_ring, chunks)", offset_of!(RingHead, chunks)),
        ("offsetof(struct refrain_ring, parts)", offset_of!(RingHead, parts)),
        ("sizeof(struct refrain_part)", size_of::<Part>()),
        ("offsetof(struct refrain_hello, segment)", offset_of!(Hello, segment)),
        ("sizeof(struct refrain_hello)", size_of::<Hello>()),
    ];
}

#[test]
fn records_have_the_same_length() {
    let length = |record: Record<'_>| record.encode().1;
    same![
        (
            "sizeof(struct refrain_module)",
            length(Record::Module {
                module: 1,
                is_main: true,
                base: 0,
                size: 0,
                path: b"",
                build_id: b""
            })
        ),
        ("sizeof(struct refrain_block)", length(Record::Block { block: 0, references: &[] })),
        (
            "sizeof(struct refrain_context)",
            length(Record::Context { block: 0, parent: 0, call: 0, function: 0 })
        ),
        (
            "sizeof(struct refrain_segment)",
            length(Record::Segment { kind: 0, owner: 0, base: 0, size: 0 })
        ),
        (
            "sizeof(struct refrain_thread)",
            length(Record::Thread { thread: 0, tid: 0, ring: 0, ring_bytes: 0 })
        ),
        ("sizeof(struct refrain_thread_end)", length(Record::ThreadEnd { thread: 0 })),
        ("sizeof(struct refrain_reference)", 16usize),
    ];
}
