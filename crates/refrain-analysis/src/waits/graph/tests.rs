//! Jobs that hang, and jobs that do not.

use super::super::Wait;
use super::*;
use crate::matching::Origin;
use std::sync::Arc;

const TAG: i64 = 0;

/// A job whose ranks wait for no other rank.
fn job(size: i32) -> Vec<RankWaitState> {
    let members: Arc<[i32]> = (0..size).collect();
    let origin = Origin::Unknown;
    let scope = Scope { kind: Kind::Communicator, members, origin, nth: 0 };
    (0..size)
        .map(|rank| RankWaitState { scopes: vec![(scope.clone(), 0)], ..RankWaitState::new(rank) })
        .collect()
}

fn wait(function: &str, until: Until, needs: Vec<Need>) -> Wait {
    let needs = needs.into_iter().map(|need| (need, function.to_owned())).collect();
    Wait { thread: 0, function: function.to_owned(), needs, until }
}

/// Blocks the rank in its first receive from that source.
fn receives(wait_state: &mut RankWaitState, source: Option<i32>) {
    let receive = Receive { scope: 0, source, tag: Some(TAG), nth: source.map_or(0, |_| 1) };
    match source {
        Some(source) => *wait_state.named.entry((0, source, TAG)).or_default() += 1,
        None => wait_state.open.push(receive),
    }
    wait_state.waits.push(wait(
        "MPI_Recv",
        Until::All,
        vec![Need::Operation(Operation::Receive(receive))],
    ));
}

fn sends(wait_state: &mut RankWaitState, to: i32) {
    let nth = wait_state.sent.entry((0, to, TAG)).or_default();
    *nth += 1;
    let need = Need::Operation(Operation::Send { lane: (0, to, TAG), nth: *nth });
    wait_state.waits.push(wait("MPI_Ssend", Until::All, vec![need]));
}

fn enters_barrier(wait_state: &mut RankWaitState) {
    wait_state.scopes[0].1 += 1;
    let nth = wait_state.scopes[0].1;
    let need = Need::Operation(Operation::Collective { scope: 0, nth, root: None });
    wait_state.waits.push(wait("MPI_Barrier", Until::All, vec![need]));
}

fn ranks_of(cycle: &[Step]) -> Vec<i32> {
    cycle.iter().map(|step| step.rank).collect()
}

#[test]
fn ranks_that_receive_in_a_circle_are_a_cycle() {
    let mut job = job(4);
    for rank in 0..4 {
        receives(&mut job[rank as usize], Some((rank + 1) % 4));
    }
    let found = findings(&job);
    assert_eq!(found.cycles.len(), 1);
    assert_eq!(ranks_of(&found.cycles[0]), [0, 1, 2, 3]);
    assert_eq!(found.stuck, [0, 1, 2, 3]);
}

#[test]
fn a_receive_whose_message_was_sent_does_not_wait() {
    let mut job = job(2);
    for rank in 0..2 {
        receives(&mut job[rank as usize], Some(1 - rank));
    }
    job[1].sent.insert((0, 0, TAG), 1);
    let found = findings(&job);
    assert_eq!(found, Findings { edges: found.edges.clone(), ..Findings::default() });
    assert_eq!(found.edges.len(), 1, "rank 0 is served; rank 1 waits for it: {found:?}");
}

#[test]
fn sends_that_nobody_receives_are_a_cycle_and_received_ones_are_not() {
    let mut both = job(2);
    for rank in 0..2 {
        sends(&mut both[rank as usize], 1 - rank);
    }
    assert_eq!(findings(&both).cycles.len(), 1);
    let mut received = job(2);
    sends(&mut received[0], 1);
    receives(&mut received[1], Some(0));
    assert_eq!(findings(&received), Findings::default());
    let mut taken_by_wildcard = job(2);
    sends(&mut taken_by_wildcard[0], 1);
    receives(&mut taken_by_wildcard[1], None);
    assert_eq!(findings(&taken_by_wildcard), Findings::default());
}

#[test]
fn a_wildcard_receive_is_stuck_only_if_all_possible_senders_are() {
    let mut job = job(3);
    receives(&mut job[0], None);
    receives(&mut job[1], Some(0));
    assert_eq!(findings(&job).stuck, Vec::<i32>::new(), "rank 2 may still send");
    receives(&mut job[2], Some(0));
    let found = findings(&job);
    assert_eq!(found.stuck, [0, 1, 2]);
    assert_eq!(found.cycles.len(), 1);
}

#[test]
fn waitsome_needs_one_request_and_waitall_all() {
    let request = |source| {
        let receive = Receive { scope: 0, source: Some(source), tag: Some(TAG), nth: 1 };
        Need::Operation(Operation::Receive(receive))
    };
    for (until, stuck) in [(Until::Any, vec![]), (Until::All, vec![0, 1])] {
        let mut job = job(3);
        receives(&mut job[1], Some(0));
        job[0].waits = vec![wait("MPI_Waitsome", until, vec![request(1), request(2)])];
        assert_eq!(findings(&job).stuck, stuck, "{until:?}");
    }
}

#[test]
fn a_barrier_names_missing_ranks_but_not_those_that_have_left_it() {
    let mut job = job(4);
    enters_barrier(&mut job[0]);
    enters_barrier(&mut job[3]);
    job[1].scopes[0].1 = 1;
    let found = findings(&job);
    assert_eq!(found.incomplete.len(), 1);
    assert_eq!(found.incomplete[0].missing, [2]);
    assert_eq!(found.incomplete[0].inside["MPI_Barrier"], [0, 3]);
    assert!(found.stuck.is_empty(), "rank 2 may still come");
}

#[test]
fn a_barrier_and_a_receive_that_wait_for_each_other_are_a_cycle() {
    let mut job = job(3);
    enters_barrier(&mut job[0]);
    receives(&mut job[1], Some(0));
    receives(&mut job[2], Some(0));
    let found = findings(&job);
    assert_eq!(ranks_of(&found.cycles[0]), [0, 1]);
    assert_eq!(found.cycles.len(), 1, "one component, one cycle");
    assert_eq!(found.incomplete[0].missing, [1, 2]);
}

#[test]
fn different_functions_for_the_same_collective_are_named() {
    let mut job = job(2);
    enters_barrier(&mut job[0]);
    enters_barrier(&mut job[1]);
    job[1].waits[0].needs[0].1 = "MPI_Bcast".to_owned();
    let found = findings(&job);
    assert_eq!(found.incomplete.len(), 1);
    assert!(found.incomplete[0].missing.is_empty());
    assert_eq!(found.incomplete[0].inside.len(), 2);
    assert_eq!(found.stuck, [0, 1], "each waits for the other");
    assert_eq!(ranks_of(&found.cycles[0]), [0, 1]);
}

#[test]
fn forms_of_one_collective_are_not_different() {
    let mut job = job(2);
    enters_barrier(&mut job[0]);
    enters_barrier(&mut job[1]);
    job[0].waits[0].needs[0].1 = "MPI_Wait: MPI_Ibcast, comm=MPI_COMM_WORLD".to_owned();
    job[1].waits[0].needs[0].1 = "MPI_Waitall: MPI_Ibcast_c, comm=MPI_COMM_WORLD".to_owned();
    assert_eq!(findings(&job), Findings::default());
}

#[test]
fn ranks_that_wait_for_one_that_has_ended_are_named() {
    let mut job = job(3);
    job[0].life = Life::Finished;
    receives(&mut job[1], Some(0));
    receives(&mut job[2], Some(1));
    let found = findings(&job);
    assert_eq!(found.stuck, [1, 2]);
    assert!(found.cycles.is_empty());
    let expected =
        WaitsOnEnded { rank: 1, words: "MPI_Recv".to_owned(), gone: 0, life: Some(Life::Finished) };
    assert_eq!(found.waits_on_ended, [expected]);
}

#[test]
fn communicators_with_the_same_members_are_distinguished() {
    let mut job = job(2);
    for wait_state in &mut job {
        let (first, _) = wait_state.scopes[0].clone();
        wait_state.scopes.push((Scope { nth: 1, ..first }, 0));
    }
    // Rank 1 sent on the other communicator.
    job[1].sent.insert((1, 0, TAG), 1);
    receives(&mut job[0], Some(1));
    receives(&mut job[1], Some(0));
    assert_eq!(findings(&job).cycles.len(), 1);
}

/// Counts messages as sent, without a blocked call.
fn has_sent(wait_state: &mut RankWaitState, scope: usize, to: i32, tag: i64, messages: u64) {
    wait_state.sent.insert((scope, to, tag), messages);
}

#[test]
fn a_message_with_another_tag_is_a_near_miss() {
    let mut job = job(4);
    receives(&mut job[3], Some(2));
    has_sent(&mut job[2], 0, 3, 10, 2);
    enters_barrier(&mut job[2]);
    let found = findings(&job);
    assert_eq!(found.stuck, [2, 3]);
    let miss = NearMiss {
        mismatch: Mismatch::Tag { wanted: TAG },
        receiver: 3,
        sender: 2,
        tag: 10,
        messages: 2,
        is_awaited: true,
        sent_in: None,
        odd: None,
    };
    assert_eq!(found.near_misses, [miss]);
}

#[test]
fn the_call_that_sent_the_message_is_named() {
    let mut job = job(4);
    receives(&mut job[3], Some(2));
    let call = |number| {
        let site = Some("app+11c9".into());
        SendingCall { number: Some(number), function: "MPI_Send".to_owned(), site }
    };
    job[2].last_sent.insert((0, 3, 10), [call(994), call(990), call(986)].into());
    enters_barrier(&mut job[2]);
    for (messages, number) in [(1, Some(994)), (2, Some(990)), (3, Some(986)), (4, None)] {
        has_sent(&mut job[2], 0, 3, 10, messages);
        assert_eq!(findings(&job).near_misses[0].sent_in, number.map(call));
    }
}

/// Rank 2 has sent a message with this tag to rank 3, which waits for tag 0. Other ranks have exchanged so many
/// messages with each of these tags.
fn with_wrong_tag(tag: i64, exchanged: &[(i64, u64)]) -> Vec<RankWaitState> {
    let mut job = job(4);
    receives(&mut job[3], Some(2));
    has_sent(&mut job[2], 0, 3, tag, 1);
    enters_barrier(&mut job[2]);
    for (tag, messages) in exchanged {
        has_sent(&mut job[0], 0, 1, *tag, *messages);
        job[1].named.insert((0, 0, *tag), *messages);
    }
    job
}

#[test]
fn a_tag_that_is_used_nowhere_else_is_odd() {
    let odd = |job: &[RankWaitState]| {
        let found = findings(job);
        assert_eq!(found.near_misses.len(), 1, "{found:?}");
        found.near_misses[0].odd
    };
    let sender = Some(Odd { rank: 2, tag: 10, usual: TAG, messages: 96 });
    assert_eq!(odd(&with_wrong_tag(10, &[(TAG, 96)])), sender);
    let receiver = Some(Odd { rank: 3, tag: TAG, usual: 10, messages: 5 });
    assert_eq!(odd(&with_wrong_tag(10, &[(10, 5)])), receiver);
    // Both tags are common, or neither, or the other one is too rare.
    assert_eq!(odd(&with_wrong_tag(10, &[(TAG, 9), (10, 1)])), None);
    assert_eq!(odd(&with_wrong_tag(10, &[(TAG, 1), (10, 9)])), None);
    assert_eq!(odd(&with_wrong_tag(10, &[])), None);
    assert_eq!(odd(&with_wrong_tag(10, &[(TAG, 2)])), None);
    // A receive that names the tag is a use of it.
    let mut job = with_wrong_tag(10, &[(TAG, 96)]);
    job[0].named.insert((0, 1, 10), 1);
    assert_eq!(odd(&job), None);
}

#[test]
fn cycles_that_hang_together_by_a_collective_are_all_named() {
    let mut job = job(12);
    // Ranks 4 and 10 wait for messages of 3 and 9, which wait for all in a barrier, as the others do.
    for (rank, wait_state) in job.iter_mut().enumerate() {
        match rank {
            4 => receives(wait_state, Some(3)),
            10 => receives(wait_state, Some(9)),
            // Rank 5 waits for a rank in a cycle: that is no other cycle.
            5 => receives(wait_state, Some(4)),
            _ => enters_barrier(wait_state),
        }
    }
    let found = findings(&job);
    let cycles: Vec<Vec<i32>> = found.cycles.iter().map(|cycle| ranks_of(cycle)).collect();
    assert_eq!(cycles, [vec![3, 4], vec![9, 10]]);
}

#[test]
fn ranks_in_different_collectives_are_one_cycle_however_many_they_are() {
    let mut job = job(40);
    for (rank, wait_state) in job.iter_mut().enumerate() {
        enters_barrier(wait_state);
        if rank % 2 == 1 {
            let need = wait_state.waits[0].needs[0].0;
            wait_state.waits[0] = wait("MPI_Bcast", Until::All, vec![need]);
        }
    }
    assert_eq!(findings(&job).cycles.len(), 1);
}

#[test]
fn a_message_from_another_rank_or_on_another_communicator_is_a_near_miss() {
    let mut job = job(3);
    for wait_state in &mut job {
        let (first, _) = wait_state.scopes[0].clone();
        wait_state.scopes.push((Scope { nth: 1, ..first }, 0));
    }
    for rank in 0..3 {
        receives(&mut job[rank as usize], Some((rank + 1) % 3));
    }
    // Rank 0 waits for rank 1 on the first communicator.
    has_sent(&mut job[2], 0, 0, TAG, 1);
    has_sent(&mut job[1], 1, 0, TAG, 1);
    // Two things differ.
    has_sent(&mut job[2], 1, 0, TAG, 1);
    has_sent(&mut job[2], 0, 0, 5, 1);
    let found = findings(&job);
    let differ: Vec<_> =
        found.near_misses.iter().map(|miss| (&miss.mismatch, miss.sender)).collect();
    let scopes = |scope: usize| job[0].scopes[scope].0.clone();
    let communicator = Mismatch::Communicator { sent_on: scopes(1), wanted: scopes(0) };
    assert_eq!(differ, [(&Mismatch::Source { wanted: 1 }, 2), (&communicator, 1)]);
}

#[test]
fn a_message_that_some_receive_matches_is_not_a_near_miss() {
    let mut job = job(2);
    receives(&mut job[0], Some(1));
    receives(&mut job[1], Some(0));
    has_sent(&mut job[1], 0, 0, 5, 1);
    job[0].named.insert((0, 1, 5), 1);
    assert_eq!(findings(&job).near_misses, []);
    // Nor is one that a wildcard receive matches.
    job[0].named.remove(&(0, 1, 5));
    job[0].open.push(Receive { scope: 0, source: None, tag: Some(5), nth: 0 });
    assert_eq!(findings(&job).near_misses, []);
}

#[test]
fn a_blocked_send_finds_the_receive_with_one_difference() {
    let mut job = job(2);
    sends(&mut job[0], 1);
    job[1].named.insert((0, 0, 7), 1);
    enters_barrier(&mut job[1]);
    let found = findings(&job);
    assert_eq!(found.near_misses.len(), 1, "{found:?}");
    assert_eq!(found.near_misses[0].mismatch, Mismatch::Tag { wanted: 7 });
    assert!(!found.near_misses[0].is_awaited);
}

#[test]
fn a_rank_with_a_thread_that_can_continue_is_not_stuck() {
    let mut job = job(2);
    receives(&mut job[0], Some(1));
    receives(&mut job[1], Some(0));
    sends(&mut job[1], 0);
    job[1].waits[1].thread = 1;
    // Rank 0 receives what the second thread of rank 1 sends.
    assert!(findings(&job).stuck.is_empty());
}
