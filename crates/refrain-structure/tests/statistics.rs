//! Statistics of durations: they add up over ranks in any order, their counts follow from the structure, and a file
//! has a summary of each.

mod common;

use common::tasks_of;
use proptest::prelude::*;
use refrain_signature::stats::Stats;
use refrain_signature::timekey::Detail;
use refrain_structure::merged::Merged;
use refrain_structure::times::{Summary, Times, Uses};
use refrain_structure::{read, times, transit, write};
use refrain_testing::program::{Op, Process, programs};
use std::collections::BTreeMap;

/// The traces of all tasks of a simulated program.
fn tasks(program: &[Op], size: u32) -> Vec<Merged> {
    let of_rank = |rank: u32| {
        let process = Process::run(program, rank, size);
        let tasks = tasks_of(&process).into_iter();
        tasks.map(|(thread, task)| Merged::of(rank, thread, task)).collect::<Vec<_>>()
    };
    (0..size).flat_map(of_rank).collect()
}

/// Statistics without the sums of squares, which are rounded.
fn exact(times: &Times) -> BTreeMap<String, Stats> {
    let entry =
        |(key, stats): (_, &Stats)| (format!("{key:?}"), Stats { squares: 0.0, ..stats.clone() });
    times.iter().map(entry).collect()
}

fn settings() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn statistics_add_up_in_any_order(program in programs(60), size in 1u32..8, turn in 0..100usize) {
        let all = tasks(&program, size);
        let mut turned = all.clone();
        turned.rotate_left(turn % all.len().max(1));
        turned.reverse();
        let one = Merged::merge_all(all).times;
        let mut other = Times::default();
        turned.into_iter().for_each(|merged| other.merge(merged.times));
        prop_assert_eq!(exact(&one), exact(&other));
        for ((_, a), (_, b)) in one.iter().zip(other.iter()) {
            prop_assert!((a.squares - b.squares).abs() <= a.squares * 1e-9);
        }
    }

    #[test]
    fn counts_follow_from_the_structure(program in programs(60), size in 1u32..8) {
        let merged = Merged::merge_all(tasks(&program, size));
        let again = read::structure(&write::structure(&merged)).expect("it reads");
        for detail in Detail::ALL {
            let uses = Uses::of(&again, detail);
            let residues = merged.groups.iter().flat_map(|group| {
                group.residues.iter().map(|(rank, residue)| (*rank, group.thread, residue))
            });
            let calls = uses.calls(&again, residues);
            let found: BTreeMap<_, u64> =
                uses.keys.iter().cloned().zip(calls.iter().map(|calls| calls.all())).collect();
            let times = merged.times.at(detail);
            let right: BTreeMap<_, u64> =
                times.iter().map(|(key, stats)| (key.clone(), stats.count)).collect();
            prop_assert_eq!(found, right);
        }
    }

    #[test]
    fn a_file_has_a_summary_of_each_key(program in programs(60), size in 1u32..8) {
        let merged = Merged::merge_all(tasks(&program, size));
        let again = read::structure(&write::structure(&merged)).expect("it reads");
        for detail in Detail::ALL {
            let (read_detail, found) =
                times::read(&again, &times::write(&merged, detail)).expect("they read");
            prop_assert_eq!(read_detail, detail);
            let times = merged.times.at(detail);
            let right: BTreeMap<_, Summary> =
                times.iter().map(|(key, stats)| (key.clone(), Summary::of(stats))).collect();
            prop_assert_eq!(found, right);
        }
    }

    #[test]
    fn statistics_reach_other_ranks_unchanged(program in programs(60), size in 1u32..6) {
        let merged = Merged::merge_all(tasks(&program, size));
        let again = transit::from_bytes(&transit::to_bytes(&merged)).expect("it reads");
        prop_assert_eq!(exact(&again.times), exact(&merged.times));
    }

    #[test]
    fn any_bytes_are_statistics_or_refused(program in programs(24), bytes: Vec<u8>) {
        let _ = times::read(&Merged::merge_all(tasks(&program, 2)), &bytes);
        let _ = transit::from_bytes(&bytes);
    }
}
