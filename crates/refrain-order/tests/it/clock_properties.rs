//! Any observed order of any clocks encodes and decodes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use refrain_order::clock::Encoder;
use refrain_order::clock::arrivals::Arrivals;
use refrain_order::clock::chunk::TableKey;
use refrain_order::clock::event::{Done, Event, Sink};
use refrain_order::clock::loaded::Row;
use refrain_order::clock::permutation::{Script, moves, observed};
use refrain_order::clock::predict;
use refrain_order::clock::read::Reader;
use refrain_order::{Envelope, Kind, Stamp};

/// The edit distance by insertions and deletions, as everybody knows it.
fn naive_distance(one: &[u32], other: &[u32]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let best = if a == b { diagonal } else { 1 + row[j].min(row[j + 1]) };
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[other.len()]
}

fn check_order(order: Vec<u32>) -> Result<(), TestCaseError> {
    let sorted: Vec<u32> = (0..order.len() as u32).collect();
    let moves = moves(&order);
    let put: Vec<u64> = moves.iter().map(|one| one.index).collect();
    prop_assert_eq!(Script::of(&moves).moves(&put), Some(moves.clone()));
    prop_assert_eq!(2 * moves.len(), naive_distance(&order, &sorted));
    prop_assert_eq!(observed(order.len(), &moves), Some(order));
    Ok(())
}

fn any_order() -> impl Strategy<Value = Vec<u32>> {
    (0..120u32).prop_flat_map(|length| Just((0..length).collect::<Vec<_>>()).prop_shuffle())
}

/// A few messages moved, as in practice.
fn near_order() -> impl Strategy<Value = Vec<u32>> {
    (1..150usize, prop::collection::vec((any::<usize>(), 0..12usize), 0..25)).prop_map(
        |(length, swaps)| {
            let mut order: Vec<u32> = (0..length as u32).collect();
            for (at, far) in swaps {
                let at = at % length;
                let one = order.remove(at);
                order.insert((at + far).min(length - 1), one);
            }
            order
        },
    )
}

/// A message in its place: when it is received, by which table, and whether with the next.
#[derive(Clone, Debug)]
struct Case {
    /// In the order received.
    events: Vec<(Stamp, Option<u32>, i32, bool)>,
    polls: Vec<u64>,
    seals: Vec<bool>,
}

fn cases(most: usize) -> impl Strategy<Value = Case> {
    let message = (0..4u32, 0..1u64 << 40, 0..3u32, 0..2i32, any::<bool>(), 0..3u64, 0..12u8);
    (prop::collection::vec(message, 0..most), any::<u64>(), 0..most).prop_map(
        |(messages, seed, reach)| {
            let mut sent: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
            messages.iter().for_each(|m| sent.entry(m.0).or_default().push(m.1));
            for clocks in sent.values_mut() {
                clocks.sort_unstable();
                clocks.dedup();
            }
            let mut all: Vec<Stamp> = Vec::new();
            for (sender, clocks) in &sent {
                let numbered = (0..).zip(clocks);
                all.extend(numbered.map(|(sequence, clock)| Stamp {
                    sender: *sender,
                    sequence,
                    clock: *clock,
                }));
            }
            all.sort_by_key(|stamp| (stamp.clock, stamp.sender));
            // Some come elsewhere, some never.
            let mut state = seed | 1;
            for _ in 0..reach.min(all.len()) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let at = state as usize % all.len();
                let one = all.remove(at);
                if state >> 60 > 0 {
                    all.insert((state >> 20) as usize % (all.len() + 1), one);
                }
                if all.is_empty() {
                    break;
                }
            }
            let events = all.into_iter().zip(&messages);
            let events = events.map(|(stamp, m)| (stamp, m.2.checked_sub(1), m.3, m.4)).collect();
            let polls = messages.iter().map(|m| m.5).collect();
            let seals = messages.iter().map(|m| m.6 == 0).collect();
            Case { events, polls, seals }
        },
    )
}

/// Tables as (polls, groups of stamps), from events.
type Told = BTreeMap<u32, Vec<(u64, Vec<Stamp>)>>;

fn encode(case: &Case) -> (Vec<u8>, Told) {
    let mut encoder = Encoder::default();
    let mut bytes = Vec::new();
    let mut told = Told::new();
    for table in 0..2 {
        encoder.put(Event::Table(TableKey { stream: 0, kind: Kind::Testsome, site: table }));
    }
    let mut open: BTreeMap<u32, (u64, Vec<Stamp>)> = BTreeMap::new();
    for (n, (stamp, table, tag, with_next)) in case.events.iter().enumerate() {
        // A table's group goes on until it says otherwise; groups do not cross seals.
        let with_next = *with_next
            && case.events.get(n + 1).is_some_and(|next| next.1 == *table)
            && table.is_some();
        if let Some(table) = table {
            let own = open.entry(*table).or_default();
            if own.1.is_empty() && case.polls[n] > 0 {
                own.0 = case.polls[n];
                encoder.put(Event::Failed { table: *table, polls: case.polls[n] });
            }
            own.1.push(*stamp);
            if !with_next && let Some(group) = open.remove(table) {
                told.entry(*table).or_default().push(group);
            }
        }
        let (done, topic) = (Done { posts: 1, calls: 0 }, (7, *tag));
        encoder.put(Event::Message {
            stream: 0,
            done,
            table: *table,
            stamp: *stamp,
            topic,
            with_next,
            claim: 0,
        });
        if case.seals[n] && !with_next {
            encoder.put(Event::Seal { last: false });
        }
    }
    encoder.put(Event::Seal { last: true });
    encoder.drain(&mut bytes);
    (bytes, told)
}

fn decode(case: &Case, bytes: Vec<u8>, seed: u64) -> Told {
    let mut arrivals = Arrivals::new(bytes, 4);
    // Senders in any order, each one's messages in the order sent; those never received too.
    let mut queues: BTreeMap<u32, BTreeMap<u64, (u64, i32)>> = BTreeMap::new();
    for (stamp, _, tag, _) in &case.events {
        queues.entry(stamp.sender).or_default().insert(stamp.sequence, (stamp.clock, *tag));
    }
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let mut state = seed;
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let mut told = Told::new();
    let mut loaded = 0;
    loop {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let senders: Vec<u32> = queues.keys().copied().collect();
        if senders.is_empty() {
            break;
        }
        let sender = senders[(state >> 33) as usize % senders.len()];
        let Some(queue) = queues.get_mut(&sender) else { break };
        let sequence = next.entry(sender).or_default();
        // One that was never received: stamped between its neighbours.
        let earliest = last.get(&sender).map_or(0, |clock| clock + 1);
        let (clock, tag) = queue.remove(sequence).unwrap_or((earliest, 0));
        last.insert(sender, clock);
        if queue.is_empty() {
            queues.remove(&sender);
        }
        *sequence += 1;
        arrivals.arrive(sender, clock, 7, Envelope { source: sender as i32, tag });
        if state >> 62 == 0 && arrivals.load().expect("it was just made") {
            loaded += 1;
        }
    }
    (0..4).for_each(|sender| arrivals.promise(sender, u64::MAX));
    while arrivals.load().expect("it was just made") {
        loaded += 1;
    }
    for chunk in 0..loaded {
        for table in 0..2 {
            while let Some(part) = arrivals.playing(chunk, table) {
                if part.is_done() {
                    break;
                }
                let polls = std::mem::take(&mut part.polls);
                let group = part.group();
                part.pass(&group);
                let stamps = group.iter().map(|row| match row {
                    Row::Message(place, 0) => {
                        arrivals.decide(chunk, table, *place).expect("all have come").stamp
                    }
                    other => panic!("{other:?}"),
                });
                let group = (polls, stamps.collect());
                told.entry(table).or_default().push(group);
            }
        }
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Chunks end early where much is moved, and several are in a frame.
    #[test]
    fn long_records_without_any_order_decode_too(case in cases(5000), seed in any::<u64>()) {
        let (bytes, told) = encode(&Case { seals: vec![false; case.seals.len()], ..case.clone() });
        prop_assert_eq!(decode(&case, bytes, seed), told);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn moves_are_the_fewest_and_give_the_order_back(order in any_order()) {
        check_order(order)?;
    }

    #[test]
    fn orders_close_to_that_of_the_clocks_too(order in near_order()) {
        check_order(order)?;
    }

    #[test]
    fn predicted_numbers_come_back(numbers in prop::collection::vec(any::<u64>(), 0..50)) {
        let mut line = predict::Line::default();
        let errors: Vec<i64> = predict::errors(numbers.iter().copied()).collect();
        let back: Vec<u64> = errors.into_iter().map(|error| line.next(error)).collect();
        prop_assert_eq!(back, numbers);
    }

    #[test]
    fn any_observed_order_of_any_clocks_encodes_and_decodes(case in cases(80), seed in any::<u64>()) {
        let (bytes, told) = encode(&case);
        prop_assert_eq!(decode(&case, bytes, seed), told);
    }

    #[test]
    fn whole_chunks_of_a_cut_record_are_read(case in cases(80), cut in any::<usize>()) {
        let (bytes, _) = encode(&case);
        let mut reader = Reader::new(&bytes[..]);
        let mut chunks = Vec::new();
        while let Some(chunk) = reader.next_chunk().expect("it was just made") {
            chunks.push(chunk);
        }
        prop_assert_eq!(reader.cut(), None);
        prop_assert!(reader.known().last);
        let cut = cut % bytes.len();
        let mut reader = Reader::new(&bytes[..cut]);
        let mut again = Vec::new();
        while let Some(chunk) = reader.next_chunk().expect("what is whole is good") {
            again.push(chunk);
        }
        prop_assert!(!reader.known().last && again.len() <= chunks.len());
        prop_assert_eq!(&again[..], &chunks[..again.len()]);
    }
}
