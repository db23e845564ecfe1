//! The worked example of Sato et al. (SC '15), figures 4 to 10, and the examples of §3.4 and §3.5.

use refrain_order::clock::epoch::{Epoch, EpochBuilder, EpochLines, Line, Member};
use refrain_order::clock::part::{Part, positions};
use refrain_order::clock::permutation::{moves, observed};
use refrain_order::clock::predict;
use refrain_order::clock::table::{BASE_VALUES, BaseRow, Message, Table};

fn message(count: u64, with_next: u8, sender: u32, clock: u64) -> BaseRow {
    BaseRow { count, found: Some((Message { sender, clock }, with_next == 1)) }
}

fn failed(count: u64) -> BaseRow {
    BaseRow { count, found: None }
}

/// Figure 4.
fn original_record() -> Vec<BaseRow> {
    vec![
        message(1, 0, 0, 2),
        failed(2),
        message(1, 1, 0, 13),
        message(1, 0, 2, 8),
        message(1, 0, 1, 8),
        message(1, 0, 0, 15),
        message(1, 0, 1, 19),
        failed(3),
        message(1, 0, 0, 17),
        failed(1),
        message(1, 0, 0, 18),
    ]
}

/// The messages of figure 4, with their sequence numbers.
fn members() -> Vec<Member> {
    let member = |(sender, sequence, clock)| Member { sender, sequence, clock };
    let all = [
        (0, 0, 2),
        (0, 1, 13),
        (2, 0, 8),
        (1, 0, 8),
        (0, 2, 15),
        (1, 1, 19),
        (0, 3, 17),
        (0, 4, 18),
    ];
    all.map(member).to_vec()
}

#[test]
fn fifty_five_values_become_twenty_three_and_nineteen() {
    let rows = original_record();
    assert_eq!(BASE_VALUES * rows.len(), 55);
    // Figure 6.
    let table = Table::of(&rows);
    assert_eq!(table.with_next, [1]);
    assert_eq!(table.unmatched, [(1, 2), (6, 3), (7, 1)]);
    assert_eq!(table.values(), 23);
    // Figures 7 and 8.
    let part = Part::of(&table);
    let epoch = EpochBuilder::default().build(members().into_iter());
    assert_eq!(part.values() + 2 * epoch.lines.len(), 19);
    assert!(epoch.holes.is_empty() && epoch.late.is_empty());
}

#[test]
fn the_permutation_of_figure_10_takes_three_moves() {
    let order = positions(&Table::of(&original_record()).matched);
    assert_eq!(order, [0, 3, 2, 1, 4, 7, 5, 6]);
    let moves = moves(&order);
    // Three insertions and three deletions; 37.5 % of the messages are permuted (§6.1).
    assert_eq!(moves.len(), 3);
    assert_eq!(observed(8, &moves), Some(order));
}

#[test]
fn messages_in_clock_order_take_no_moves() {
    let rows: Vec<BaseRow> = (0..1000).map(|n| message(1, 0, n % 3, u64::from(n))).collect();
    let part = Part::of(&Table::of(&rows));
    assert_eq!(part.values(), 0);
}

#[test]
fn linear_prediction_leaves_the_errors_of_the_example() {
    let numbers = [1, 2, 4, 6, 8, 12, 17];
    let errors: Vec<i64> = predict::errors(numbers.into_iter()).collect();
    assert_eq!(errors, [1, 0, 1, 0, 0, 2, 1]);
    let mut line = predict::Line::default();
    let back: Vec<u64> = errors.iter().map(|error| line.next(*error)).collect();
    assert_eq!(back, numbers);
}

#[test]
fn a_message_beyond_the_epoch_line_belongs_to_a_later_chunk() {
    let epoch: Epoch = EpochBuilder::default().build(members().into_iter());
    let line = |sender, clock| Line { sender, clock };
    assert_eq!(epoch.lines, [line(0, 18), line(1, 19), line(2, 8)]);
    let mut lines = EpochLines::default();
    let border = lines.next_chunk(&epoch);
    assert!(members().iter().all(|member| border.contains(member) && !lines.is_ahead(member)));
    // It precedes the message of rank 0 with clock 18, but does not belong to this chunk.
    let early = Member { sender: 2, sequence: 1, clock: 17 };
    assert!(!border.contains(&early) && lines.is_ahead(&early));
}
