//! Commands on damaged files: they report the damage, and end.

use refrain_container::{Codec, Container, Writer};
use refrain_testing::random::{Random, damage};
use refrain_testing::{Outcome, is_full, refrain, sample};
use refrain_trace::assemble::Keep;
use std::fs;
use std::path::{Path, PathBuf};

/// Commands that a user might try on a trace.
const COMMANDS: [&[&str]; 4] =
    [&["info"], &["stats"], &["verify"], &["show", "--limit", "100", "--rank", "1"]];

/// A small trace, with raw records.
fn trace(folder: &Path) -> PathBuf {
    let (parts, path) = (folder.join("t.refrain.parts"), folder.join("t.refrain"));
    fs::create_dir(&parts).unwrap();
    let program = sample::program(&mut Random::new(7), 60);
    sample::leave_parts(&parts, &program, 3, Keep::Raw);
    sample::merge(&parts, &path, Keep::Raw).unwrap();
    path
}

fn run(command: &[&str], path: &Path) -> Outcome {
    let path = path.to_str().unwrap();
    refrain([command, &[path]].concat())
}

/// Asserts that a command ended by itself, with a documented exit code, and not by a panic.
fn check(outcome: &Outcome) {
    assert!(!outcome.timed_out && [0, 1, 125].contains(&outcome.code), "{outcome}");
    assert!(!outcome.stderr.contains("panicked"), "{outcome}");
    assert!(outcome.code != 125 || outcome.stderr.starts_with("refrain: "), "{outcome}");
}

#[test]
fn commands_on_a_damaged_trace_end_and_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let whole = fs::read(&path).unwrap();
    let container = Container::open(&path).unwrap();
    let section = |name: &String| (name.clone(), container.read_checked(name).unwrap());
    let sections: Vec<(String, Vec<u8>)> =
        container.sections().iter().map(|section| &section.name).map(section).collect();
    for command in COMMANDS {
        run(command, &path).expect_success();
    }
    let damaged = folder.path().join("damaged.refrain");
    for case in 0..if is_full() { 2000 } else { 200 } {
        let random = &mut Random::new(case);
        if case % 4 == 0 {
            let mut bytes = whole.clone();
            damage(&mut bytes, random);
            fs::write(&damaged, bytes).unwrap();
        } else {
            // With valid checksums.
            let mut sections = sections.clone();
            let at = random.below(sections.len().min(4));
            damage(&mut sections[at].1, random);
            let mut writer = Writer::create(&damaged).unwrap();
            for (name, content) in &sections {
                writer.add(name, Codec::Stored, &mut content.as_slice()).unwrap();
            }
            writer.finish().unwrap();
        }
        let command = COMMANDS[case as usize % COMMANDS.len()];
        check(&run(command, &damaged));
        check(&run(&["verify"], &damaged));
    }
}

#[test]
fn a_folder_with_damaged_parts_is_merged_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trace(folder.path());
    let parts = folder.path().join("t.refrain.parts");
    fs::remove_file(&whole).unwrap();
    // One rank's part is truncated, another's is not a part.
    let cut = fs::read(parts.join("0.0.part")).unwrap();
    fs::write(parts.join("0.0.part"), &cut[..5000]).unwrap();
    fs::write(parts.join("1.0.part"), "not a part").unwrap();
    let outcome = run(&["merge"], &parts).expect_success();
    assert!(outcome.stderr.contains("0.0.part"), "{outcome}");
    assert!(outcome.stderr.contains("1.0.part"), "{outcome}");
    run(&["show", "--rank", "2", "--limit", "5"], &whole).expect_success();
}

#[test]
fn calls_can_be_read_although_their_times_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let container = Container::open(&path).unwrap();
    let damaged = folder.path().join("damaged.refrain");
    let whole = run(&["show"], &path).expect_success();
    for what in ["its checksum", "its content"] {
        let mut writer = Writer::create(&damaged).unwrap();
        for section in container.sections().iter().filter(|s| !s.name.starts_with("raw")) {
            let mut content = container.read_checked(&section.name).unwrap();
            if section.name == "timing" && what == "its content" {
                content.pop();
            }
            writer.add(&section.name, Codec::Stored, &mut content.as_slice()).unwrap();
        }
        writer.finish().unwrap();
        if what == "its checksum" {
            let timing = container.read_checked("timing").unwrap();
            let mut bytes = fs::read(&damaged).unwrap();
            let at = bytes.windows(timing.len()).position(|w| w == timing).expect("the section");
            bytes[at + timing.len() / 2] ^= 0x55;
            fs::write(&damaged, bytes).unwrap();
        }
        let shown = run(&["show"], &damaged).expect_success();
        assert_eq!(shown.stdout.lines().count(), whole.stdout.lines().count(), "{what}");
        for (command, code) in [("stats", 125), ("info", 125), ("verify", 1)] {
            let outcome = run(&[command], &damaged);
            assert_eq!(outcome.code, code, "{what}: {outcome}");
            let said = outcome.stdout + &outcome.stderr;
            assert!(said.contains("timing"), "{what}: {said}");
        }
    }
}
