//! The examples of ScalaTrace II, figure by figure.

use crate::programs::{folded, grouped_text, nest_of};
use refrain_nest::{Folded, Options, Play, Stacks, of_one, over_groups};

/// The nest of skeletons without values.
fn nest(skeletons: &[u32]) -> Vec<Folded> {
    let sequence: Vec<u32> = skeletons.iter().map(|skeleton| skeleton << 8).collect();
    folded(&sequence, Options::default())
}

#[test]
fn figure_1_a_loop_with_iteration_specific_behavior() {
    // Barrier, Isend in the first iteration, Irecv in the second, Barrier.
    let (first, isend, irecv, last) = (1, 2, 3, 4);
    let calls = [first, isend, last, first, irecv, last];
    // The paper: E1(4,2) E2(1,1 0) E3(1,0 1) E4.
    assert_eq!(nest_of(&calls), "2*[1 (1 0)*[2] (0 1)*[3] 4]");
}

#[test]
fn figure_2_a_loop_with_trailing_iterations() {
    let program = |trips: &dyn Fn(u32) -> u32| {
        let mut calls = Vec::new();
        for step in 0..6 {
            calls.push(1);
            (0..trips(step)).for_each(|_| calls.extend([2, 3, 4]));
        }
        calls
    };
    assert_eq!(nest_of(&program(&|_| 5)), "6*[1 5*[2 3 4]]");
    // The iterations after the first inner one belong to the same step.
    assert_eq!(nest_of(&program(&|step| 3 + step % 3)), "6*[1 (3 4 5 3 4 5)*[2 3 4]]");
    // Without the delayed merge, the first step ends when its first inner iteration does.
    let calls: Vec<u32> = program(&|step| 3 + step % 3).iter().map(|call| call << 8).collect();
    let eager = Options { delayed: false, ..Options::default() };
    let decoded: Vec<u32> = Play::new(&folded(&calls, eager)).map(|(_, value)| value).collect();
    assert_eq!(decoded, calls);
}

/// The steps of the simplified BT: `solve_x` and `solve_y` do the same. Up to `most` frames may differ.
fn simplified_bt(most: usize) -> String {
    let mut stacks = Stacks::new(most);
    let mut calls = Vec::new();
    for _ in 0..10 {
        for solve in ["solve_x", "solve_y"] {
            for (line, function) in
                ["MPI_Isend", "MPI_Irecv", "MPI_Wait", "MPI_Wait"].iter().enumerate()
            {
                let stack = format!("{solve}+{line}\nsimulate+{solve}\nmain+7");
                calls.push(stacks.of(function.as_bytes(), stack.as_bytes()));
            }
        }
    }
    nest_of(&calls)
}

#[test]
fn figure_3_stacks_that_differ_in_few_frames_are_one_place() {
    assert_eq!(simplified_bt(0), "10*[0 1 2 3 4 5 6 7]");
    // The two waits of a function differ in one frame.
    assert_eq!(simplified_bt(1), "10*[0 1 2*[2] 3 4 2*[5]]");
    // Frames of the solver and of `simulate` differ.
    assert_eq!(simplified_bt(2), "20*[0 1 2*[2]]");
}

/// The two ranks of figure 4: five iterations without a wait and one with, six iterations with a wait.
fn ranks_of_figure_4() -> [Vec<u32>; 2] {
    let (isend, irecv, last_isend, last_irecv, waitall) = (1, 2, 3, 4, 5);
    let mut first = [isend, irecv].repeat(5);
    first.extend([last_isend, last_irecv, waitall]);
    [first, [isend, irecv, waitall].repeat(6)]
}

#[test]
fn figure_4_loops_with_other_trip_counts_and_calls_are_one_loop() {
    let [first, second] = ranks_of_figure_4();
    assert_eq!(nest_of(&first), "5*[1 2] 3 4 5");
    assert_eq!(nest_of(&second), "6*[1 2 5]");
    let common = over_groups(vec![nest(&first), nest(&second)]);
    for (rank, calls) in [first, second].iter().enumerate() {
        let decoded: Vec<u32> =
            Play::new(&of_one(&common, rank)).map(|(skeleton, _)| skeleton).collect();
        assert_eq!(decoded, *calls);
    }
}

#[test]
fn figure_5_the_final_trace_has_every_call_once() {
    let [first, second] = ranks_of_figure_4();
    let common = over_groups(vec![nest(&first), nest(&second)]);
    // The paper: Isend(2,5)[0](3,6)[1] Irecv, Isend and Irecv of rank 0, Waitall of both.
    assert_eq!(grouped_text(&common), "{0: 1; 1: 6}*[{0: 5; 1: 1}*[1 2] 0:3 0:4 5]");
    let common = over_groups(vec![nest(&second), nest(&first)]);
    assert_eq!(grouped_text(&common), "{0: 6; 1: 1}*[{0: 1; 1: 5}*[1 2] 1:3 1:4 5]");
}

#[test]
fn figure_6_each_rank_has_a_cursor_of_its_own() {
    // if rank 0 { Irecv; compute; Wait } else { Send; compute }
    let (irecv, compute, wait, send, other_compute) = (1, 2, 3, 4, 5);
    let ranks = [vec![irecv, compute, wait], vec![send, other_compute]];
    let common = over_groups(ranks.iter().map(|calls| nest(calls)).collect());
    assert_eq!(grouped_text(&common), "0:1 0:2 0:3 1:4 1:5");
    // The cursor of rank 1 does not pass the calls of rank 0: both begin at the same time.
    let nests = [of_one(&common, 0), of_one(&common, 1)];
    let mut cursors = nests.each_ref().map(|nest| Play::new(nest));
    let mut rounds = Vec::new();
    loop {
        let round: Vec<u32> =
            cursors.iter_mut().filter_map(|cursor| Some(cursor.next()?.0)).collect();
        if round.is_empty() {
            break;
        }
        rounds.push(round);
    }
    assert_eq!(rounds, [vec![irecv, send], vec![compute, other_compute], vec![wait]]);
}

#[test]
fn the_loops_of_a_stencil_with_borders_are_one_nest() {
    // Ranks at the left border, inside, at the right border.
    let rank = |has_left: bool, has_right: bool| {
        let mut calls = vec![9];
        for step in 0..30 {
            calls.extend(has_left.then_some(1));
            calls.extend(has_right.then_some(2));
            calls.push(3);
            if step % 10 == 9 {
                calls.push(4);
            }
        }
        calls.push(8);
        nest(&calls)
    };
    let common = over_groups(vec![rank(false, true), rank(true, true), rank(true, false)]);
    let condition: Vec<&str> = (0..30).map(|i| if i % 10 == 9 { "1" } else { "0" }).collect();
    let expected = format!("9 30*[1,2:1 0,1:2 3 ({})*[4]] 8", condition.join(" "));
    assert_eq!(grouped_text(&common), expected);
}
