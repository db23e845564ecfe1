use super::align::aligned;
use super::flat::{flat, stretches};
use super::gathered::Gathered;
use super::place::{Call, Place, Visits, What};
use proptest::prelude::*;
use refrain_reader::refrain_elastic::IdList;
use refrain_reader::refrain_nest::{Grouped, Nest, Places, Seq};
use std::collections::{BTreeMap, BTreeSet};

/// Calls at a place.
fn call(skeleton: u32, visits: &[(u32, u64)]) -> Place {
    let visits: Visits = visits.iter().copied().collect();
    let call = Call {
        skeleton,
        function: 1,
        returned: true,
        sites: Vec::new(),
        arguments: Vec::new(),
        requests: BTreeSet::new(),
        calls: visits.values().sum(),
        nanoseconds: 1.0,
        gaps: 0.0,
    };
    Place { visits, what: What::Call(Box::new(call)) }
}

/// A loop with the same trip count at all visits.
fn repeat(trips: i64, visits: &[(u32, u64)], body: Vec<Place>) -> Place {
    let visits: Visits = visits.iter().copied().collect();
    let trips = Gathered::constant(trips, &visits);
    Place { visits, what: What::Loop { is_condition: false, trips, body } }
}

/// A loop of a nest of one group over calls at these places, with these trip counts.
fn nested(trips: &[u64], skeletons: &[u32]) -> Grouped {
    let visits: u64 = trips.iter().sum();
    let leaf = |skeleton: &u32| {
        Nest::Leaf(Places { skeleton: *skeleton, groups: vec![(0, Seq::run(0, visits))] })
    };
    let count = vec![(0, trips.iter().copied().collect())];
    Nest::Loop { count, body: skeletons.iter().map(leaf).collect() }
}

/// Trip counts of a loop, and how often each occurs.
fn trips(node: &Place) -> Vec<(i64, u64)> {
    match &node.what {
        What::Loop { trips, .. } => trips.tally.values().collect(),
        What::Call(_) => Vec::new(),
    }
}

/// The flat loop of a stretch that one rank visits so often, and the calls at each place.
fn flattened(nest: &[Grouped], visits: u64) -> (Place, BTreeMap<u32, u64>) {
    let mut calls: BTreeMap<u32, u64> = BTreeMap::new();
    for node in nest {
        let Nest::Loop { count, body } = node else { continue };
        for leaf in body {
            let Nest::Leaf(places) = leaf else { continue };
            *calls.entry(places.skeleton).or_default() += count[0].1.sum();
        }
    }
    let places = calls.iter().map(|(place, calls)| (*place, call(*place, &[(0, *calls)])));
    (flat(nest, visits, &IdList::range(0, 1), places.collect()), calls)
}

proptest! {
    #[test]
    fn a_flat_loop_has_every_place_once_and_all_calls(
        loops in proptest::collection::vec(
            (proptest::collection::vec(0u64..4, 2..=2), proptest::collection::vec(0u32..5, 1..4)),
            1..20,
        ),
    ) {
        let nest: Vec<Grouped> =
            loops.iter().map(|(trips, skeletons)| nested(trips, skeletons)).collect();
        let (node, calls) = flattened(&nest, 2);
        let iterations: u64 = trips(&node).iter().map(|(value, times)| *value as u64 * times).sum();
        let What::Loop { body, .. } = &node.what else { panic!("{node:?}") };
        let mut seen = BTreeMap::new();
        for inner in body {
            let places = inner.skeletons();
            let place = *places.first().expect("a place");
            prop_assert_eq!(places.len(), 1);
            let times = match &inner.what {
                What::Call(_) => iterations,
                What::Loop { trips, .. } => {
                    let all: Vec<(i64, u64)> = trips.tally.values().collect();
                    prop_assert_eq!(all.iter().map(|(_, times)| times).sum::<u64>(), iterations);
                    all.iter().map(|(value, times)| *value as u64 * times).sum()
                }
            };
            prop_assert!(seen.insert(place, times).is_none(), "{place} twice");
        }
        prop_assert_eq!(seen, calls);
    }
}

#[test]
fn iterations_that_lack_a_call_get_the_trip_count_zero() {
    // Receive and send, send alone, receive and send: a sweep.
    let nest =
        [(2, 1), (3, 2), (4, 1), (2, 2), (1, 2)].map(|(trips, place)| nested(&[trips], &[place]));
    let (node, _) = flattened(&nest, 1);
    let What::Loop { body, .. } = &node.what else { panic!("{node:?}") };
    assert_eq!(trips(&node), [(2, 1)], "two sends in a row are one run");
    let counts: Vec<Vec<(i64, u64)>> = body.iter().map(trips).collect();
    assert_eq!(counts, [vec![(2, 1), (4, 1)], vec![(3, 2)]]);
}

#[test]
fn a_stretch_ends_where_its_places_do_not_come_again() {
    let sets = [&[1][..], &[2, 3], &[], &[3], &[4], &[4, 5], &[5], &[]];
    let sets: Vec<BTreeSet<u32>> = sets.iter().map(|set| set.iter().copied().collect()).collect();
    assert_eq!(stretches(&sets), [0..1, 1..4, 4..7, 7..8]);
}

#[test]
fn ranks_with_other_trip_counts_and_calls_are_in_the_same_loop() {
    let ours = vec![
        call(1, &[(0, 1)]),
        repeat(3, &[(0, 1)], vec![call(2, &[(0, 3)]), call(3, &[(0, 3)])]),
    ];
    let theirs = vec![
        repeat(5, &[(1, 1)], vec![call(3, &[(1, 5)]), call(4, &[(1, 5)])]),
        call(9, &[(1, 1)]),
    ];
    let body = aligned(ours, theirs, 8);
    let places: Vec<Vec<u32>> =
        body.iter().map(|node| node.skeletons().into_iter().collect()).collect();
    assert_eq!(places, [vec![1], vec![2, 3, 4], vec![9]]);
    assert_eq!(trips(&body[1]), [(3, 1), (5, 1)]);
    assert_eq!(body[1].visits, Visits::from([(0, 1), (1, 1)]));
    let What::Loop { body, .. } = &body[1].what else { panic!() };
    assert_eq!(body[1].visits, Visits::from([(0, 3), (1, 5)]), "both call the third place");
}
