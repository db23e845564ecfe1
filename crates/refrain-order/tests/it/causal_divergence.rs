//! Divergence is detected at the first call that differs from the record, and described.

use refrain_order::{
    Call, Completed, Decision, Divergence, Envelope, Frames, Kind, MatchResult, Moment, Post,
    Posting, Recorder, Replayer, Stop,
};

fn call(kind: Kind, site: u64, count: u32) -> Call {
    Call { kind, site, count }
}

fn any(site: u64) -> Post {
    Post { site, communicator: 0, source: None, tag: Some(5) }
}

/// Three receives from any source, a Waitany, a Test that failed twice, and a Recv.
fn replayer() -> Replayer {
    let mut recorder = Recorder::new();
    let tickets = [1, 2, 3].map(|source| (recorder.post(0, &any(10)), source));
    recorder.matched(0, &call(Kind::Waitany, 20, 3), Completed::These(&[1]));
    recorder.failed(0, Kind::Test, 30);
    recorder.failed(0, Kind::Test, 30);
    recorder.matched(0, &call(Kind::Test, 30, 0), Completed::All);
    recorder.matched(0, &call(Kind::Recv, 40, 0), Completed::All);
    for (ticket, source) in tickets {
        recorder.resolve(ticket, MatchResult::Matched(Envelope { source, tag: 5 }));
    }
    let mut bytes = Vec::new();
    recorder.finish(&mut bytes);
    Replayer::new(Frames::read(bytes)).unwrap()
}

fn diverged<T: std::fmt::Debug>(result: Result<T, Stop>) -> Divergence {
    match result {
        Err(Stop::Diverged(divergence)) => *divergence,
        other => panic!("{other:?} is no divergence"),
    }
}

#[test]
fn the_same_program_gets_the_same_outcomes() {
    let mut replayer = replayer();
    for source in [1, 2, 3] {
        let from = Envelope { source, tag: 5 };
        assert_eq!(replayer.post(0, &any(10)), Ok(Posting::Narrowed(from)));
    }
    let waitany = call(Kind::Waitany, 20, 3);
    assert_eq!(replayer.call(0, &waitany), Ok(Decision::These(&[1])));
    let test = call(Kind::Test, 30, 0);
    assert_eq!(replayer.call(0, &test), Ok(Decision::Fail));
    assert_eq!(replayer.call(0, &test), Ok(Decision::Fail));
    assert_eq!(replayer.call(0, &test), Ok(Decision::All));
    assert_eq!(replayer.position(0), 2);
    assert_eq!(replayer.call(0, &call(Kind::Recv, 40, 0)), Ok(Decision::All));
    assert_eq!(replayer.finish(), Ok(()));
}

#[test]
fn after_the_end_of_a_complete_record_every_call_is_a_divergence() {
    let mut replayer = replayer();
    (0..3).for_each(|_| assert!(replayer.post(0, &any(10)).is_ok()));
    let calls = [(Kind::Waitany, 20, 3), (Kind::Test, 30, 0), (Kind::Test, 30, 0)];
    let calls = calls.into_iter().chain([(Kind::Test, 30, 0), (Kind::Recv, 40, 0)]);
    for (kind, site, count) in calls {
        assert!(replayer.call(0, &call(kind, site, count)).is_ok());
    }
    let divergence = diverged(replayer.call(0, &call(Kind::Test, 30, 0)));
    assert_eq!(divergence.expected, Moment::End);
    assert!(matches!(divergence.got, Moment::Call { position: 3, kind: Kind::Test, .. }));
    assert_eq!(diverged(replayer.post(0, &any(10))).expected, Moment::End);
    assert_eq!(diverged(replayer.value(0, 0)).expected, Moment::End);
}

#[test]
fn a_divergent_call_is_reported_with_the_expected_one_and_its_neighbours() {
    let mut replayer = replayer();
    replayer.call(0, &call(Kind::Waitany, 20, 3)).unwrap();
    let divergence = diverged(replayer.call(0, &call(Kind::Recv, 40, 0)));
    let Moment::Call { position: 1, kind: Kind::Test, site: 30, polls: 2, .. } =
        divergence.expected
    else {
        panic!("{divergence}");
    };
    let Moment::Call { position: 1, kind: Kind::Recv, site: 40, .. } = divergence.got else {
        panic!("{divergence}");
    };
    assert_eq!(divergence.neighbours.len(), 2);
    assert!(
        divergence.to_string().contains("expected  call 1: Test at 0x1e, after 2 failed polls")
    );
}

#[test]
fn another_number_of_requests_is_a_divergence() {
    diverged(replayer().call(0, &call(Kind::Waitany, 20, 4)));
}

#[test]
fn another_site_is_a_divergence() {
    diverged(replayer().call(0, &call(Kind::Waitany, 21, 3)));
    diverged(replayer().post(0, &any(11)));
}

#[test]
fn another_communicator_tag_or_wildcard_is_a_divergence() {
    diverged(replayer().post(0, &Post { communicator: 1, ..any(10) }));
    diverged(replayer().post(0, &Post { tag: Some(6), ..any(10) }));
    diverged(replayer().post(0, &Post { tag: None, ..any(10) }));
}

#[test]
fn an_additional_receive_is_a_divergence_while_recorded_calls_remain() {
    let mut replayer = replayer();
    for _ in 0..3 {
        replayer.post(0, &any(10)).unwrap();
    }
    diverged(replayer.post(0, &any(10)));
}

#[test]
fn a_poll_after_its_recorded_success_is_a_divergence_not_a_hang() {
    let mut replayer = replayer();
    let test = call(Kind::Test, 30, 0);
    assert_eq!(replayer.call(0, &test), Ok(Decision::Fail));
    assert_eq!(replayer.call(0, &test), Ok(Decision::Fail));
    diverged(replayer.call(0, &test));
}

#[test]
fn a_program_that_ends_too_soon_is_a_divergence() {
    let mut replayer = replayer();
    replayer.call(0, &call(Kind::Waitany, 20, 3)).unwrap();
    assert_eq!(diverged(replayer.finish()).got, Moment::End);
}

/// Figure 3 of Sato et al.: two messages of one sender, the second reported first.
#[test]
fn two_receives_from_one_sender_complete_in_the_recorded_order() {
    let mut recorder = Recorder::new();
    let tickets = [(); 2].map(|()| recorder.post(0, &any(10)));
    recorder.failed(0, Kind::Test, 31);
    recorder.matched(0, &call(Kind::Test, 32, 0), Completed::All);
    recorder.matched(0, &call(Kind::Test, 31, 0), Completed::All);
    for ticket in tickets.into_iter().rev() {
        recorder.resolve(ticket, MatchResult::Matched(Envelope { source: 3, tag: 5 }));
    }
    let mut bytes = Vec::new();
    recorder.finish(&mut bytes);
    let mut replayer = Replayer::new(Frames::read(bytes)).unwrap();
    assert_eq!(replayer.call(0, &call(Kind::Test, 31, 0)), Ok(Decision::Fail));
    assert_eq!(replayer.call(0, &call(Kind::Test, 32, 0)), Ok(Decision::All));
    assert_eq!(replayer.call(0, &call(Kind::Test, 31, 0)), Ok(Decision::All));
}
