use super::*;
use proptest::prelude::*;
use refrain_elastic::Column;
use refrain_nest::Seq;
use refrain_nest::formulas::{Holds, Pattern, Rule};
use std::collections::BTreeMap;

fn histogram(values: &[i64], bins: u64) -> Histogram {
    let mut tally = Tally::new(None);
    values.iter().for_each(|value| tally.add(0, *value, 1));
    tally.histogram(bins)
}

/// Values that always are what they are.
fn constant(value: i64, ranks: u32) -> Values {
    let all: Vec<(u32, i64)> = (0..ranks).map(|rank| (rank, value)).collect();
    Values::over_ranks(all, 0).expect("a constant takes no numbers")
}

fn listed(ranks: u32) -> Ranks {
    Ranks::Listed(IdList::range(0, ranks))
}

/// A call with these arguments.
fn call(ranks: u32, arguments: Vec<Values>) -> Node {
    let argument = |values| Argument { param: 0, parts: vec![Part::Number(values)] };
    let arguments = arguments.into_iter().map(argument).collect();
    Node { ranks: listed(ranks), what: What::Call(Call { arguments, ..Call::default() }) }
}

fn program(ranks: u32, body: Vec<Node>) -> Program {
    Program { thread: 0, ranks: IdList::range(0, ranks), body }
}

/// The values of the first argument of the calls of all ranks, by place.
fn drawn(program: &Program, ranks: u32) -> BTreeMap<u32, Vec<i64>> {
    let mut all: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for rank in 0..ranks {
        for call in program.calls(7, rank) {
            let value = call.values.first().and_then(|parts| parts[0]);
            all.entry(call.place).or_default().extend(value);
        }
    }
    all
}

proptest! {
    #[test]
    fn each_value_is_drawn_as_often_as_it_occurred(
        values in proptest::collection::vec(-3i64..9, 1..60), key: u64,
    ) {
        let histogram = histogram(&values, 100);
        let mut drawn: Vec<i64> =
            (0..values.len() as u64).filter_map(|n| histogram.draw(key, n, 0)).collect();
        drawn.sort_unstable();
        let mut values = values;
        values.sort_unstable();
        prop_assert_eq!(drawn, values);
    }

    #[test]
    fn totals_stay_close_with_few_bins(
        values in proptest::collection::vec(0i64..100_000, 50..400), key: u64,
    ) {
        let histogram = histogram(&values, 8);
        prop_assert!(histogram.bins.len() <= 8);
        let drawn: i64 =
            (0..values.len() as u64).filter_map(|n| histogram.draw(key, n, 0)).sum();
        let total: i64 = values.iter().sum();
        // Rounding, by at most a spacing of values in a bin.
        prop_assert!((drawn - total).abs() <= total / 20 + 100, "{drawn} instead of {total}");
    }

    #[test]
    fn totals_of_small_numbers_stay_close_with_few_bins(
        values in proptest::collection::vec(0i64..12, 100..400), key: u64,
    ) {
        let histogram = histogram(&values, 4);
        let drawn: i64 =
            (0..values.len() as u64).filter_map(|n| histogram.draw(key, n, 0)).sum();
        let total: i64 = values.iter().sum();
        prop_assert!((drawn - total).abs() <= total / 12 + 5, "{drawn} instead of {total}");
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>) {
        if let Ok(trace) = read(&bytes) {
            let calls = trace.programs.iter().flat_map(|program| program.calls(1, 0).take(100));
            calls.for_each(drop);
        }
    }

    #[test]
    fn damaged_traces_are_read_or_refused(at: u16, to: u8) {
        let mut bytes = write(&example());
        let at = usize::from(at) % bytes.len();
        bytes[at] = to;
        if let Ok(trace) = read(&bytes) {
            let calls = trace.programs.iter().flat_map(|program| program.calls(1, 0).take(100));
            calls.for_each(drop);
        }
    }
}

/// A trace with every kind of node and value.
fn example() -> HistogramTrace {
    let two = |over: Over| Values::Visits(vec![(IdList::range(0, 4), over)]);
    let mut values = vec![constant(5, 4)];
    values.push(Values::Ranks(Column::fit(&[0, 1, 2, 3], &[4, 9, 1, 3])));
    values.push(two(Over::Formula(Pattern::Affine(3, vec![(0, -2), (1, 8)]))));
    let table = Pattern::Table { index: 1, values: vec![4, 5, 6], wraps: true };
    values.push(two(Over::Formula(table)));
    let mut sequence = Seq::run(7i64, 3);
    sequence.push(-1, 1);
    values.push(two(Over::Sequence(sequence.repeat(9))));
    values.push(Values::Histogram(histogram(&[-1, -1, 4, 8, 15, 16, 23, 42], 3)));
    let mut inner = call(4, values);
    if let What::Call(call) = &mut inner.what {
        call.sites = vec![b"app+1a".to_vec(), b"app+2b\napp+3c".to_vec()];
        call.requests = vec![1, 2];
        (call.calls, call.nanoseconds, call.gaps) = (100, 2000, 1 << 40);
        let which = Values::Histogram(histogram(&[0, 1, 1], 4));
        let words = vec!["heap1".to_owned(), "stack".to_owned()];
        let part = Part::Word { words, left_out: 3, which };
        call.arguments.push(Argument { param: 4, parts: vec![part, Part::Number(constant(0, 4))] });
    }
    let rule = Over::Rule(Rule { index: 1, holds: Holds::Remainder(3, 1) });
    let condition =
        Node { ranks: Ranks::Some(3), what: What::If { holds: two(rule), body: vec![inner] } };
    let trips = Values::Histogram(histogram(&[1, 2, 2, 3, 9], 5));
    let inside = Node { ranks: listed(4), what: What::Loop { trips, body: vec![condition] } };
    let outside =
        Node { ranks: listed(4), what: What::Loop { trips: constant(10, 4), body: vec![inside] } };
    HistogramTrace {
        above: 5,
        seed: 42,
        functions: BTreeMap::new(),
        programs: vec![program(4, vec![outside])],
    }
}

#[test]
fn a_trace_reads_back_as_written() {
    let trace = example();
    assert_eq!(read(&write(&trace)).expect("it reads"), trace);
    // Trip counts and condition, guard, argument and word.
    assert_eq!(trace.replaced(), 4);
}

#[test]
fn loops_conditions_and_formulas_are_executed() {
    let indices = Over::Formula(Pattern::Affine(0, vec![(0, 10), (1, 1)]));
    let values = Values::Visits(vec![(IdList::range(0, 1), indices)]);
    let rule = Over::Rule(Rule { index: 0, holds: Holds::AtLeast(1) });
    let holds = Values::Visits(vec![(IdList::range(0, 1), rule)]);
    let inner = Node {
        ranks: listed(1),
        what: What::Loop { trips: constant(2, 1), body: vec![call(1, vec![values])] },
    };
    let condition = Node { ranks: listed(1), what: What::If { holds, body: vec![inner] } };
    let outer = Node {
        ranks: listed(1),
        what: What::Loop { trips: constant(3, 1), body: vec![condition] },
    };
    let program = program(1, vec![outer]);
    assert_eq!(drawn(&program, 1), BTreeMap::from([(3, vec![10, 11, 20, 21])]));
}

#[test]
fn ranks_without_a_list_are_so_many() {
    let some = |body: Vec<Node>| Node {
        ranks: Ranks::Some(11),
        what: What::Loop { trips: constant(1, 64), body },
    };
    let mut inner = call(64, vec![constant(1, 64)]);
    inner.ranks = Ranks::Some(5);
    let program = program(64, vec![some(vec![call(64, vec![]), inner])]);
    let ranks = |place: u32| {
        (0..64).filter(|rank| program.calls(7, *rank).any(|call| call.place == place)).count()
    };
    assert_eq!((ranks(1), ranks(2)), (11, 5));
}

#[test]
fn trip_counts_of_all_ranks_add_up() {
    let trips: Vec<i64> = (0..400).map(|n| n * n % 17).collect();
    let histogram = Values::Histogram(histogram(&trips, 17));
    let inner = Node {
        ranks: listed(4),
        what: What::Loop { trips: histogram, body: vec![call(4, vec![])] },
    };
    let outer =
        Node { ranks: listed(4), what: What::Loop { trips: constant(100, 4), body: vec![inner] } };
    let program = program(4, vec![outer]);
    let calls: usize = (0..4).map(|rank| program.calls(3, rank).count()).sum();
    assert_eq!(calls as i64, trips.iter().sum::<i64>());
}

#[test]
fn a_peer_is_a_distance_from_the_rank() {
    let mut tally = Tally::new(Some(8));
    for rank in 0..8u32 {
        tally.add(rank, i64::from((rank + 1) % 8), 3);
        tally.add(rank, i64::from((rank + 7) % 8), 1);
        tally.add(rank, -1, 1);
    }
    let histogram = tally.histogram(4);
    assert_eq!((histogram.relative, histogram.bins.len()), (Some(8), 3));
    let mut drawn: Vec<i64> = (0..40).filter_map(|n| histogram.draw(9, n, 7)).collect();
    drawn.sort_unstable();
    let expected = [vec![-1; 8], vec![0; 24], vec![6; 8]].concat();
    assert_eq!(drawn, expected);
}
