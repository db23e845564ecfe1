use super::*;
use proptest::prelude::*;

const US: u64 = 1000;

/// A program of steps: an exchange of two calls, then computing, on each of some ranks.
struct Program(Loads);

impl Program {
    fn new() -> Program {
        Program(Loads { is_timed: true, ..Loads::default() })
    }

    /// A rank whose gaps after the exchange are these.
    fn rank(&mut self, rank: i32, gaps: &[u64]) {
        let sites: [Arc<str>; 2] = ["halo a.c:9".into(), "halo a.c:13".into()];
        let (mut clock, mut all) = (0, self.0.rank(rank));
        let mut call = |gap, function, site, duration| {
            clock += gap;
            let span = Some((clock, Some(clock + duration)));
            all.call(&Observed { function, site, bytes: Some(8), span, ..Observed::default() });
            clock += duration;
        };
        call(0, "MPI_Init", None, 1_000_000 * US);
        let mut before = 0;
        for gap in gaps {
            call(before, "MPI_Irecv", Some(&sites[0]), US);
            call(0, "MPI_Waitall", Some(&sites[1]), 100 * US);
            before = *gap;
        }
        call(before, "MPI_Irecv", Some(&sites[0]), US);
        call(0, "MPI_Finalize", None, 5 * US);
        all.finish();
    }
}

#[test]
fn a_rank_that_computes_longer_than_all_others_is_named_with_the_calls_around() {
    let mut program = Program::new();
    for rank in 0..8 {
        let gap = if rank == 5 { 273 * US } else { (122 + 4 * rank as u64) * US };
        program.rank(rank, &[gap; 200]);
    }
    let found = program.0.longest().expect("rank 5");
    assert_eq!(found.ranks, [5]);
    let (from, to) = &found.between;
    assert_eq!((&*from.function, from.site.as_deref()), ("MPI_Waitall", Some("halo a.c:13")));
    assert_eq!((&*to.function, to.site.as_deref()), ("MPI_Irecv", Some("halo a.c:9")));
    let near = |is: u64, was: u64| is.abs_diff(was * US) * 50 <= was * US;
    assert!(near(found.medians.0, 273) && near(found.medians.1, 273), "{found:?}");
    assert_eq!(found.counts, (200, 200));
    let (medians, counts) = found.others.expect("the others compute there, too");
    assert!(near(medians.0, 122) && near(medians.1, 150), "{medians:?}");
    assert_eq!(counts, (200, 200));
    // 200 times 123 µs of 200 times 374 µs.
    assert!((0.31..0.35).contains(&found.share), "{found:?}");
}

#[test]
fn a_rank_is_named_only_with_a_gap_that_it_has() {
    let mut program = Program::new();
    for rank in 2..6 {
        program.rank(rank, &[100 * US; 200]);
    }
    for (rank, function) in [(0, "MPI_Send"), (1, "MPI_Recv")] {
        let (mut clock, mut all) = (0, program.0.rank(rank));
        for _ in 0..200 {
            let span = Some((clock, Some(clock + US)));
            all.call(&Observed { function, span, ..Observed::default() });
            clock += (2000 + rank as u64) * US;
        }
        all.finish();
    }
    let found = program.0.longest().expect("two ranks that compute longer");
    let (from, to) = &found.between;
    assert_eq!((&*from.function, &*to.function), ("MPI_Recv", "MPI_Recv"));
    assert_eq!(found.ranks, [1]);
}

#[test]
fn time_in_which_a_process_did_not_run_names_no_rank() {
    let mut program = Program::new();
    for rank in 0..4 {
        let mut gaps = [100 * US; 100];
        if rank == 2 {
            gaps[..3].fill(20_000 * US);
        }
        program.rank(rank, &gaps);
    }
    let load = &program.0.ranks[2];
    assert!(load.computing > 60_000 * US && load.typical < 11_000 * US, "{load:?}");
    assert_eq!(program.0.longest(), None);
}

#[test]
fn ranks_with_about_the_same_load_are_not_told_apart() {
    let mut program = Program::new();
    (0..6).for_each(|rank| program.rank(rank, &[(100 + 3 * rank as u64) * US; 50]));
    assert_eq!(program.0.longest(), None);
    assert_eq!(Loads::default().longest(), None);
    let mut alone = Program::new();
    alone.rank(0, &[100 * US; 50]);
    assert_eq!(alone.0.longest(), None);
}

#[test]
fn several_ranks_may_compute_longest_but_never_most_of_them() {
    let mut program = Program::new();
    for rank in 0..8 {
        program.rank(rank, &[if rank < 3 { 300 * US } else { 100 * US }; 50]);
    }
    assert_eq!(program.0.longest().map(|found| found.ranks), Some(vec![0, 1, 2]));
    let mut program = Program::new();
    for rank in 0..8 {
        program.rank(rank, &[if rank < 7 { 300 * US } else { 100 * US }; 50]);
    }
    assert_eq!(program.0.longest(), None);
}

#[test]
fn a_single_long_gap_counts_if_it_is_much_of_the_run() {
    let mut program = Program::new();
    for rank in 0..4 {
        program.rank(rank, &[if rank == 1 { 900_000 * US } else { 100 * US }]);
    }
    let found = program.0.longest().expect("rank 1");
    assert_eq!((found.ranks, found.counts), (vec![1], (1, 1)));
}

#[test]
fn starting_and_ending_mpi_is_apart_and_calls_inside_calls_have_no_time() {
    let mut loads = Loads::default();
    let mut rank = loads.rank(3);
    let mut call = |function, depth, start, end, bytes| {
        let span = Some((start, end));
        let is_unsized = bytes == Some(7);
        rank.call(&Observed { function, depth, span, bytes, is_unsized, ..Observed::default() });
    };
    call("MPI_Init", 0, 0, Some(1000), None);
    call("MPI_Allreduce", 0, 1100, Some(1500), Some(8));
    call("MPI_Type_size", 1, 1200, Some(1210), None);
    call("MPI_Send", 0, 1700, Some(1750), Some(7));
    call("MPI_Recv", 0, 1800, None, None);
    rank.finish();
    let load = &loads.ranks[0];
    assert_eq!((load.rank, load.calls, load.bytes, load.unsized_calls), (3, 5, 15, 1));
    assert_eq!((load.startup, load.inside, load.computing), (1000, 450, 350));
    assert_eq!((load.elapsed, load.pairs.len()), (800, 3));
}

#[test]
fn threads_are_not_one_sequence() {
    let mut loads = Loads::default();
    let mut rank = loads.rank(0);
    for _ in 0..2 {
        rank.begin_thread();
        for start in [0, 1000] {
            let span = Some((start, Some(start + 100)));
            rank.call(&Observed { function: "MPI_Send", span, ..Observed::default() });
        }
    }
    rank.finish();
    assert_eq!((loads.ranks[0].computing, loads.ranks[0].pairs[0].count), (1800, 2));
}

proptest! {
    #[test]
    fn medians_are_within_two_per_cent(mut gaps in prop::collection::vec(any::<u64>(), 1..200)) {
        let mut all = Gaps::default();
        gaps.iter().for_each(|gap| all.note(*gap));
        gaps.sort_unstable();
        let truth = gaps[(gaps.len() - 1) / 2];
        prop_assert!(all.median().abs_diff(truth) <= truth / 50, "{} for {truth}", all.median());
    }

    #[test]
    fn bins_increase_with_values(a: u64, b: u64) {
        let (a, b) = (a.min(b), a.max(b));
        prop_assert!(Gaps::bin(a) <= Gaps::bin(b));
        prop_assert_eq!(Gaps::bin(Gaps::middle(Gaps::bin(a))), Gaps::bin(a));
    }
}
