//! For all columns, fitting, writing and merging lose nothing. For all bytes, reading neither panics nor
//! takes unbounded time or memory.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use refrain_elastic::columns::{Columns, Side};
use refrain_elastic::{Column, ColumnSet, IdList, RankList, TextColumn, tree};

/// The bound on ranks that is passed to decoders.
const MOST: u32 = 4096;

/// Ranks with values of every kind: random, few, structured with and without exceptions.
fn columns() -> impl Strategy<Value = (Vec<u32>, Vec<i64>)> {
    let value = prop_oneof![
        4 => any::<i8>().prop_map(i64::from),
        2 => any::<i64>(),
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
    ];
    let random = btree_map(0..MOST, value, 0..200)
        .prop_map(|map| map.into_iter().unzip::<u32, i64, Vec<_>, Vec<_>>());
    prop_oneof![random, structured()]
}

fn structured() -> impl Strategy<Value = (Vec<u32>, Vec<i64>)> {
    let shape = (0..9u8, -70..70i64, 1..70i64, 1..20i64);
    let ranks = (0..64u32, 1..300u32, 1..5u32, any::<bool>());
    let exceptions = vec((any::<prop::sample::Index>(), -3..3i64), 0..6);
    (shape, ranks, exceptions).prop_map(|(shape, (start, count, stride, holes), exceptions)| {
        let (kind, a, m, n) = shape;
        let ranks: Vec<u32> = (0..count)
            .filter(|i| !holes || i % 7 != 3 && i % 11 != 5)
            .map(|i| start + stride * i)
            .collect();
        let value = |r: i64| match kind {
            0 => a,
            1 => a * r + m,
            2 => (r + m) % (m + n),
            3 => (r ^ m) + a,
            4 => r % m * n + r / m,
            5 => (r % m + 1) % m + r / m * m,
            6 => r & (r - 1),
            7 => (r & -r) * a,
            _ => {
                if r % m == 0 {
                    -1
                } else {
                    r - 1
                }
            }
        };
        let mut values: Vec<i64> = ranks.iter().map(|&rank| value(i64::from(rank))).collect();
        for (index, value) in exceptions {
            if !values.is_empty() {
                let index = index.index(values.len());
                values[index] = value;
            }
        }
        (ranks, values)
    })
}

/// Merges the columns in the order that `picks` gives.
fn merge_in_some_order(mut columns: Vec<Column>, picks: &[prop::sample::Index]) -> Column {
    let mut picks = picks.iter().cycle();
    while columns.len() > 1 {
        let mut pick = |len| picks.next().map_or(0, |index| index.index(len));
        let a = columns.swap_remove(pick(columns.len()));
        let b = columns.swap_remove(pick(columns.len()));
        columns.push(Column::merge(a, b));
    }
    columns.pop().unwrap_or_default()
}

fn encoded(column: &Column) -> Vec<u8> {
    let mut bytes = Vec::new();
    column.encode(&mut bytes);
    bytes
}

/// Uses all of a decoded column.
fn exercise(column: &Column) {
    let (ranks, values) = column.expand();
    assert_eq!(ranks.len(), column.ranks().len());
    assert!(ranks.len() <= MOST as usize);
    assert!(ranks.is_sorted_by(|a, b| a < b));
    for (&rank, &value) in ranks.iter().zip(&values).step_by(1 + ranks.len() / 50) {
        assert_eq!(column.eval(rank), Some(value));
    }
    assert_eq!(column.eval(MOST), None);
    let bytes = encoded(column);
    let again = Column::decode(&mut &bytes[..], MOST).map(|again| again.expand());
    assert_eq!(again, Ok((ranks, values)));
    let _ = column.to_string();
}

proptest! {
    #[test]
    fn merged_lists_give_each_id_its_numbers(
        lists in vec(vec(0..4_i64, 3), 2..12),
        split in any::<prop::sample::Index>(),
    ) {
        let split = 1 + split.index(lists.len() - 1) as u32;
        let all = IdList::range(0, lists.len() as u32);
        // The lists of the ids in a range, merged one by one.
        let merged = |range: std::ops::Range<u32>| {
            let mut columns = Columns::default();
            let numbers = &lists[range.start as usize];
            for id in range.start + 1..range.end {
                let ids = IdList::range(range.start, id - range.start);
                let ours = Side { numbers, columns: &columns, ids: &ids };
                let single = IdList::single(id);
                let list = &lists[id as usize];
                let theirs = Side { numbers: list, columns: &Columns::default(), ids: &single };
                columns = Columns::merge(ours, theirs, &ids.union(&single));
            }
            (numbers.clone(), columns, IdList::range(range.start, range.end - range.start))
        };
        let (a, b) = (merged(0..split), merged(split..lists.len() as u32));
        let columns = Columns::merge(
            Side { numbers: &a.0, columns: &a.1, ids: &a.2 },
            Side { numbers: &b.0, columns: &b.1, ids: &b.2 },
            &all,
        );
        for (id, list) in (0..).zip(&lists) {
            let mut numbers = a.0.clone();
            prop_assert_eq!(columns.apply(id, &mut numbers), Some(()));
            prop_assert_eq!(&numbers, list);
        }
        let differs = |at: usize| lists.iter().any(|list| list[at] != lists[0][at]);
        prop_assert_eq!(columns.len(), (0..3).filter(|at| differs(*at)).count());
    }

    #[test]
    fn a_set_over_shared_bases_has_every_number(
        base in vec(-50..50_i64, 1..30),
        affine in vec((-3..4_i64, -1000..1000_i64, any::<bool>()), 1..8),
        start in 0..9_u32,
    ) {
        let ids = IdList::range(start, base.len() as u32);
        let number = |(id, base): (u32, &i64), (scale, offset, is_own): &(i64, i64, bool)| {
            scale * if *is_own { i64::from(id) } else { *base } + offset
        };
        let list = |of: (u32, &i64)| affine.iter().map(|affine| Some(number(of, affine))).collect();
        let numbers: Vec<Vec<Option<i64>>> = ids.iter().zip(&base).map(list).collect();
        let set = ColumnSet::fit(&ids, &numbers);
        // All numbers that are not affine in the id are affine in one base.
        prop_assert!(set.bases.len() <= 1, "{:?}", set);
        for (id, numbers) in ids.iter().zip(&numbers) {
            let values: Vec<Option<i64>> = set.values(&ids, id).into_iter().map(Some).collect();
            prop_assert_eq!(&values, numbers);
        }
    }

    #[test]
    fn a_reduction_joins_neighbours_in_order_and_in_a_tree(items in 0..300_u32) {
        // An item is a range, and the number of joins that its parts went through.
        let join = |a: (u32, u32, u32), b: (u32, u32, u32)| {
            assert_eq!(a.1, b.0, "neighbours");
            (a.0, b.1, a.2.max(b.2) + 1)
        };
        let all = tree::reduce((0..items).map(|item| (item, item + 1, 0)), join);
        prop_assert_eq!(all.map(|all| (all.0, all.1)), (items > 0).then_some((0, items)));
        prop_assert!(all.is_none_or(|all| all.2 <= items.ilog2() + 1));
    }

    #[test]
    fn a_fitted_column_has_every_value((ranks, values) in columns()) {
        let column = Column::fit(&ranks, &values);
        prop_assert_eq!(column.expand(), (ranks.clone(), values.clone()));
        prop_assert_eq!(column.values(&ranks), values);
        let listed: Vec<u32> = (0..MOST).filter(|&rank| column.eval(rank).is_some()).collect();
        prop_assert_eq!(listed, ranks);
    }

    #[test]
    fn ranks_in_any_order_are_fitted(pairs in vec((0..300u32, any::<i8>()), 0..100)) {
        let ranks: Vec<u32> = pairs.iter().map(|&(rank, _)| rank).collect();
        let values: Vec<i64> = pairs.iter().map(|&(_, value)| i64::from(value)).collect();
        let column = Column::fit(&ranks, &values);
        for rank in 0..300 {
            let first = ranks.iter().position(|&r| r == rank).map(|i| values[i]);
            prop_assert_eq!(column.eval(rank), first);
        }
    }

    #[test]
    fn a_column_is_never_much_longer_than_its_values((ranks, values) in columns()) {
        let list = RankList::from_sorted(&ranks);
        let mut bytes = Vec::new();
        Column::fit_over(&list, &values).encode_values(&mut bytes);
        let varints: usize = values
            .iter()
            .map(|v| (65 - v.unsigned_abs().leading_zeros() as usize).div_ceil(7))
            .sum();
        prop_assert!(bytes.len() <= varints + 14, "{} > {}", bytes.len(), varints);
    }

    #[test]
    fn a_column_reads_back_as_written((ranks, values) in columns()) {
        let column = Column::fit(&ranks, &values);
        let bytes = encoded(&column);
        let input = &mut &bytes[..];
        prop_assert_eq!(Column::decode(input, MOST), Ok(column));
        prop_assert!(input.is_empty());
    }

    #[test]
    fn merging_in_any_order_keeps_every_value(
        (ranks, values) in columns(),
        parts in 1..9usize,
        deal in vec(any::<prop::sample::Index>(), 40),
        picks in vec(any::<prop::sample::Index>(), 20),
        blocks in any::<bool>(),
    ) {
        let mut dealt = vec![(Vec::new(), Vec::new()); parts];
        for (i, (&rank, &value)) in ranks.iter().zip(&values).enumerate() {
            let part = if blocks { i * parts / ranks.len() } else { deal[i % 40].index(parts) };
            dealt[part].0.push(rank);
            dealt[part].1.push(value);
        }
        let columns = dealt.iter().map(|(ranks, values)| Column::fit(ranks, values)).collect();
        let merged = merge_in_some_order(columns, &picks);
        prop_assert_eq!(merged.expand(), (ranks.clone(), values.clone()));
        prop_assert_eq!(merged.values(&ranks), values);
    }

    #[test]
    fn a_ranklist_holds_exactly_its_ranks(
        a in prop::collection::btree_set(0..600u32, 0..200),
        b in prop::collection::btree_set(0..600u32, 0..200),
    ) {
        let lists = [&a, &b].map(|set| RankList::from_sorted(&set.iter().copied().collect::<Vec<_>>()));
        let both: Vec<u32> = a.union(&b).copied().collect();
        let union = lists[0].union(&lists[1]);
        prop_assert_eq!(union.to_vec(), both.clone());
        for rank in 0..600 {
            let position = both.binary_search(&rank).ok();
            prop_assert_eq!(union.position(rank), position);
            prop_assert_eq!(union.contains(rank), position.is_some());
        }
        let mut bytes = Vec::new();
        union.encode(&mut bytes);
        prop_assert_eq!(RankList::decode(&mut &bytes[..], 600), Ok(union.clone()));
        if let Some(last) = union.last() {
            prop_assert!(RankList::decode(&mut &bytes[..], last).is_err());
        }
    }

    #[test]
    fn a_text_column_has_every_text(
        texts in prop_oneof![
            vec("[a-c0-2.]{0,6}", 0..60),
            (vec(0..1000u32, 0..60), 0..6usize).prop_map(|(numbers, width)| {
                numbers.iter().map(|n| format!("a{n:0width$}/b.{}", n / 7)).collect()
            }),
        ],
        cut in any::<prop::sample::Index>(),
    ) {
        let ranks: Vec<u32> = (0..texts.len() as u32).map(|r| 3 * r).collect();
        let bytes: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let column = TextColumn::fit(&ranks, &bytes);
        let expected: Vec<Vec<u8>> = bytes.iter().map(|text| text.to_vec()).collect();
        prop_assert_eq!(column.expand(), (ranks.clone(), expected.clone()));

        let mut out = Vec::new();
        column.encode(&mut out);
        prop_assert_eq!(TextColumn::decode(&mut &out[..], MOST), Ok(column));

        let cut = cut.index(texts.len() + 1).min(texts.len());
        let a = TextColumn::fit(&ranks[..cut], &bytes[..cut]);
        let b = TextColumn::fit(&ranks[cut..], &bytes[cut..]);
        prop_assert_eq!(TextColumn::merge(a, b).expand(), (ranks, expected));
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..80)) {
        if let Ok(column) = Column::decode(&mut &bytes[..], MOST) {
            exercise(&column);
        }
        let _ = RankList::decode(&mut &bytes[..], MOST);
        if let Ok(column) = TextColumn::decode(&mut &bytes[..], MOST) {
            let _ = column.expand();
        }
    }

    #[test]
    fn small_random_bytes_are_read_or_refused(bytes in vec(0..24u8, 0..80)) {
        if let Ok(column) = Column::decode(&mut &bytes[..], MOST) {
            exercise(&column);
            let other = Column::fit(&[1, 5, 900], &[7, -1, 3]);
            let merged = Column::merge(column.clone(), other);
            for rank in column.ranks().iter() {
                prop_assert_eq!(merged.eval(rank), column.eval(rank));
            }
        }
        if let Ok(column) = TextColumn::decode(&mut &bytes[..], MOST) {
            let _ = column.expand();
        }
    }

    #[test]
    fn damaged_columns_are_read_or_refused(
        (ranks, values) in columns(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&Column::fit(&ranks, &values));
        prop_assert!(Column::decode(&mut &bytes[..cut.index(bytes.len())], MOST).is_err());
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(column) = Column::decode(&mut &bytes[..], MOST) {
            exercise(&column);
        }
    }
}

#[test]
fn a_section_of_all_ranks_is_decoded_in_constant_memory() {
    // One section of one dimension: stride 1, count 2^32 - 2, and a constant.
    let mut bytes = vec![1, 1, 1];
    bytes.extend([0xfc, 0xff, 0xff, 0xff, 0x0f]);
    bytes.extend([0, 84]);
    let column = Column::decode(&mut &bytes[..], u32::MAX).unwrap();
    assert_eq!(column.ranks().len(), u32::MAX as usize - 1);
    assert_eq!(column.eval(4_000_000_000), Some(42));
    assert!(Column::decode(&mut &bytes[..], 1000).is_err());
}

#[test]
fn extreme_ranks_and_values_are_fitted() {
    let ranks = [0, 1, u32::MAX - 1, u32::MAX];
    for values in [
        [i64::MIN, i64::MAX, i64::MIN, i64::MAX],
        [i64::MIN, -1, 0, i64::MAX],
        [i64::MAX, i64::MIN, i64::MIN + 1, 0],
        [0, 1, i64::from(u32::MAX) - 1, i64::from(u32::MAX)],
    ] {
        let column = Column::fit(&ranks, &values);
        assert_eq!(column.values(&ranks), values, "{column}");
        assert_eq!(Column::fit(&ranks[2..], &values[2..]).values(&ranks[2..]), &values[2..]);
    }
    assert!(Column::fit(&[], &[]).is_empty());
    assert_eq!(Column::fit(&[3, 4], &[9]).expand(), (vec![3], vec![9]));
}
