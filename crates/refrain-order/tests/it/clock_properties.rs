//! Property tests: any observed order of any clocks encodes and decodes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use refrain_order::clock::Encoder;
use refrain_order::clock::arrivals::Arrivals;
use refrain_order::clock::chunk::TableKey;
use refrain_order::clock::event::{Event, Sink, Tally};
use refrain_order::clock::loaded::Row;
use refrain_order::clock::permutation::{Script, moves, observed};
use refrain_order::clock::predict;
use refrain_order::clock::read::Reader;
use refrain_order::{Envelope, Kind, Stamp};

/// The edit distance by insertions and deletions, by dynamic programming.
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

/// Events of a process.
#[derive(Clone, Debug)]
struct Case {
    /// Messages in observed order: stamp, table, tag, and whether the next message is of the same call.
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
            // Some are received at another position, some never.
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

/// For each table, its calls: failed polls before the call, and the stamps it found.
type Tables = BTreeMap<u32, Vec<(u64, Vec<Stamp>)>>;

fn encode(case: &Case) -> (Vec<u8>, Tables) {
    let mut encoder = Encoder::default();
    let mut bytes = Vec::new();
    let mut tables = Tables::new();
    for table in 0..2 {
        encoder.put(Event::Table(TableKey { stream: 0, kind: Kind::Testsome, site: table }));
    }
    let mut open: BTreeMap<u32, (u64, Vec<Stamp>)> = BTreeMap::new();
    for (n, (stamp, table, tag, with_next)) in case.events.iter().enumerate() {
        // A call's rows are consecutive, and no seal comes between them.
        let with_next = *with_next
            && case.events.get(n + 1).is_some_and(|next| next.1 == *table)
            && table.is_some();
        if let Some(table) = table {
            let group = open.entry(*table).or_default();
            if group.1.is_empty() && case.polls[n] > 0 {
                group.0 = case.polls[n];
                encoder.put(Event::Failed { table: *table, polls: case.polls[n] });
            }
            group.1.push(*stamp);
            if !with_next && let Some(group) = open.remove(table) {
                tables.entry(*table).or_default().push(group);
            }
        }
        let (tally, topic) = (Tally { posts: 1, calls: 0 }, (7, *tag));
        encoder.put(Event::Message {
            stream: 0,
            tally,
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
    (bytes, tables)
}

fn decode(case: &Case, bytes: Vec<u8>, seed: u64) -> Tables {
    let mut arrivals = Arrivals::new(bytes, 4);
    // Senders in random order, the messages of each in sending order, including those that are never received.
    let mut queues: BTreeMap<u32, BTreeMap<u64, (u64, i32)>> = BTreeMap::new();
    for (stamp, _, tag, _) in &case.events {
        queues.entry(stamp.sender).or_default().insert(stamp.sequence, (stamp.clock, *tag));
    }
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let mut state = seed;
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let mut tables = Tables::new();
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
        // The stamp of a message that is never received is between those of its neighbours.
        let earliest = last.get(&sender).map_or(0, |clock| clock + 1);
        let (clock, tag) = queue.remove(sequence).unwrap_or((earliest, 0));
        last.insert(sender, clock);
        if queue.is_empty() {
            queues.remove(&sender);
        }
        *sequence += 1;
        arrivals.arrive(sender, clock, 7, Envelope { source: sender as i32, tag });
        if state >> 62 == 0 && arrivals.load().expect("a record just made") {
            loaded += 1;
        }
    }
    (0..4).for_each(|sender| arrivals.raise_bound(sender, u64::MAX));
    while arrivals.load().expect("a record just made") {
        loaded += 1;
    }
    for chunk in 0..loaded {
        for table in 0..2 {
            while let Some(part) = arrivals.part(chunk, table) {
                if part.is_done() {
                    break;
                }
                let polls = std::mem::take(&mut part.polls);
                let group = part.group();
                part.advance(&group);
                let stamps = group.iter().map(|row| match row {
                    Row::Message(position, 0) => {
                        arrivals
                            .decide(chunk, table, *position)
                            .expect("all messages have arrived")
                            .stamp
                    }
                    other => panic!("{other:?}"),
                });
                let group = (polls, stamps.collect());
                tables.entry(table).or_default().push(group);
            }
        }
    }
    tables
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Chunks end early if many messages move, and a frame has several chunks.
    #[test]
    fn long_records_in_random_order_decode(case in cases(5000), seed in any::<u64>()) {
        let (bytes, tables) = encode(&Case { seals: vec![false; case.seals.len()], ..case.clone() });
        prop_assert_eq!(decode(&case, bytes, seed), tables);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn moves_are_the_fewest_and_restore_the_order(order in any_order()) {
        check_order(order)?;
    }

    #[test]
    fn moves_of_orders_close_to_the_clock_order_are_the_fewest_too(order in near_order()) {
        check_order(order)?;
    }

    #[test]
    fn predicted_numbers_are_restored(numbers in prop::collection::vec(any::<u64>(), 0..50)) {
        let mut line = predict::Line::default();
        let errors: Vec<i64> = predict::errors(numbers.iter().copied()).collect();
        let back: Vec<u64> = errors.into_iter().map(|error| line.next(error)).collect();
        prop_assert_eq!(back, numbers);
    }

    #[test]
    fn any_observed_order_of_any_clocks_encodes_and_decodes(case in cases(80), seed in any::<u64>()) {
        let (bytes, tables) = encode(&case);
        prop_assert_eq!(decode(&case, bytes, seed), tables);
    }

    #[test]
    fn whole_chunks_of_a_truncated_record_are_read(case in cases(80), length in any::<usize>()) {
        let (bytes, _) = encode(&case);
        let mut reader = Reader::new(&bytes[..]);
        let mut chunks = Vec::new();
        while let Some(chunk) = reader.next_chunk().expect("a record just made") {
            chunks.push(chunk);
        }
        prop_assert_eq!(reader.truncated(), None);
        prop_assert!(reader.known().last);
        let length = length % bytes.len();
        let mut reader = Reader::new(&bytes[..length]);
        let mut again = Vec::new();
        while let Some(chunk) = reader.next_chunk().expect("whole chunks are valid") {
            again.push(chunk);
        }
        prop_assert!(!reader.known().last && again.len() <= chunks.len());
        prop_assert_eq!(&again[..], &chunks[..again.len()]);
    }
}
