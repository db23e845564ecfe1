//! The communication patterns of real programs take a few bytes for any number of ranks, whether fitted
//! at once or merged from single ranks.

use refrain_elastic::{Column, RankList};

/// Shapes of grids of 16 to 16,384 ranks.
const GRIDS: [[u32; 3]; 7] =
    [[4, 4, 1], [6, 8, 1], [8, 8, 1], [4, 4, 4], [32, 32, 1], [16, 8, 8], [128, 128, 1]];
const LARGE: [[u32; 3]; 2] = [[32, 16, 32], [25, 26, 25]];
/// Numbers of ranks for patterns without a grid.
const SIZES: [u32; 6] = [16, 48, 64, 1000, 1024, 16384];
/// Powers of two.
const CUBES: [u32; 4] = [16, 64, 1024, 16384];

/// The encoded size of the column's values.
fn size(column: &Column) -> usize {
    let mut bytes = Vec::new();
    column.encode_values(&mut bytes);
    bytes.len()
}

fn same_values(column: &Column, ranks: &[u32], values: &[i64]) {
    assert_eq!(column.expand(), (ranks.to_vec(), values.to_vec()), "{column}");
    for (&rank, &value) in ranks.iter().zip(values).step_by(1 + ranks.len() / 500) {
        assert_eq!(column.eval(rank), Some(value), "rank {rank} of {column}");
    }
}

/// Merges the columns of single ranks pairwise, as the tree over the ranks does. With many ranks, it begins
/// with blocks of ranks: the lowest levels of the tree are all alike.
fn merge_tree(ranks: &[u32], values: &[i64]) -> Column {
    let block = if ranks.len() > 2000 { 128 } else { 1 };
    let blocks = ranks.chunks(block).zip(values.chunks(block));
    let mut level: Vec<Column> = blocks.map(|(ranks, values)| Column::fit(ranks, values)).collect();
    while level.len() > 1 {
        let mut halves = level.into_iter();
        let mut merged = Vec::new();
        while let Some(a) = halves.next() {
            merged.push(match halves.next() {
                Some(b) => Column::merge(a, b),
                None => a,
            });
        }
        level = merged;
    }
    level.pop().unwrap_or_default()
}

/// Fits the values of some ranks, and checks that they read back and take at most `most_bytes`.
fn check_over(name: &str, ranks: &[u32], most_bytes: usize, value: impl Fn(i64) -> i64) {
    let values: Vec<i64> = ranks.iter().map(|&rank| value(i64::from(rank))).collect();
    let column = Column::fit(ranks, &values);
    same_values(&column, ranks, &values);
    let bytes = size(&column);
    println!("{name}: {} ranks: {bytes} bytes: {column}", ranks.len());
    assert!(bytes <= most_bytes, "{name}: {} ranks, {bytes} bytes: {column}", ranks.len());

    let mut encoded = Vec::new();
    column.encode(&mut encoded);
    let most = ranks.last().map_or(0, |last| last + 1);
    assert_eq!(Column::decode(&mut &encoded[..], most).as_ref(), Ok(&column));

    let merged = merge_tree(ranks, &values);
    same_values(&merged, ranks, &values);
    let merged_bytes = size(&merged);
    let slack = 4 + bytes / 4;
    assert!(merged_bytes <= bytes + slack, "{name}: {merged_bytes} bytes merged: {merged}");
}

fn check(name: &str, ranks: u32, most_bytes: usize, value: impl Fn(i64) -> i64) {
    check_over(name, &(0..ranks).collect::<Vec<_>>(), most_bytes, value);
}

/// The neighbour of `rank` at `step` on a grid; `null` beyond a border that is not periodic.
fn neighbour(rank: i64, size: [u32; 3], step: [i64; 3], periodic: [bool; 3], null: i64) -> i64 {
    let [x, y, _] = size.map(i64::from);
    let coordinates = [rank % x, rank / x % y, rank / x / y];
    let mut there = [0; 3];
    for i in 0..3 {
        let n = i64::from(size[i]);
        there[i] = coordinates[i] + step[i];
        if periodic[i] {
            there[i] = there[i].rem_euclid(n);
        } else if !(0..n).contains(&there[i]) {
            return null;
        }
    }
    there[0] + x * (there[1] + y * there[2])
}

const STEPS: [(&str, [i64; 3]); 6] = [
    ("west", [-1, 0, 0]),
    ("east", [1, 0, 0]),
    ("north", [0, -1, 0]),
    ("south", [0, 1, 0]),
    ("below", [0, 0, -1]),
    ("above", [0, 0, 1]),
];

fn all_grids() -> impl Iterator<Item = [u32; 3]> {
    GRIDS.into_iter().chain(LARGE)
}

fn count(size: [u32; 3]) -> u32 {
    size.iter().product()
}

#[test]
fn the_same_value_everywhere_is_a_constant() {
    for ranks in SIZES {
        check("constant", ranks, 2, |_| 42);
    }
}

#[test]
fn a_neighbour_at_a_fixed_distance_is_affine() {
    for ranks in SIZES {
        check("rank + 1", ranks, 3, |r| r + 1);
        check("displacement", ranks, 6, |r| 8192 * r + 4096);
    }
}

#[test]
fn a_ring_is_a_modulus() {
    for ranks in SIZES {
        let n = i64::from(ranks);
        check("ring right", ranks, 6, |r| (r + 1) % n);
        check("ring left", ranks, 8, |r| (r + n - 1) % n);
        check("dissemination", ranks, 8, |r| (r + 8) % n);
        check("ring displacement", ranks, 12, |r| (r + 1) % n * 1024);
    }
}

#[test]
fn a_hypercube_partner_is_an_exclusive_or() {
    for ranks in CUBES {
        for bit in (0..ranks.ilog2()).step_by(3) {
            check("hypercube", ranks, 5, |r| r ^ (1 << bit));
        }
    }
}

#[test]
fn a_root_that_differs_is_one_piece() {
    for ranks in SIZES {
        let last = i64::from(ranks) - 1;
        check("root constant", ranks, 10, |r| if r == 0 { 7 } else { 3 });
        check("root other", ranks, 10, |r| if r == 0 { -1 } else { r - 1 });
        check("last other", ranks, 12, |r| if r == last { -1 } else { r + 1 });
        check("root 5", ranks, 12, |r| if r == 5 { 1000 } else { 0 });
    }
}

#[test]
fn neighbours_on_a_grid_with_borders_are_two_pieces() {
    for size in all_grids() {
        for (name, step) in STEPS {
            for null in [-1, -2] {
                check(name, count(size), 18, |r| neighbour(r, size, step, [false; 3], null));
            }
        }
    }
}

#[test]
fn diagonal_neighbours_on_a_grid_with_borders_are_two_pieces() {
    for size in all_grids() {
        for step in [[1, 1, 0], [-1, 1, 0], [1, -1, 0], [-1, -1, 0], [0, 1, 1], [1, 1, 1]] {
            if size[2] == 1 && step[2] != 0 {
                continue;
            }
            check("diagonal", count(size), 40, |r| neighbour(r, size, step, [false; 3], -1));
        }
    }
}

#[test]
fn neighbours_on_a_periodic_grid_are_one_formula() {
    for size in all_grids() {
        for (name, step) in STEPS {
            check(name, count(size), 14, |r| neighbour(r, size, step, [true; 3], -1));
        }
        for step in [[1, 1, 0], [-1, 1, 0], [-1, -1, 0]] {
            check("diagonal", count(size), 18, |r| neighbour(r, size, step, [true; 3], -1));
        }
    }
}

#[test]
fn a_grid_that_is_periodic_in_one_direction_needs_one_more_piece() {
    for size in all_grids() {
        for step in [[1, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 1, 0]] {
            let periodic = [true, false, false];
            check("half periodic", count(size), 30, |r| neighbour(r, size, step, periodic, -2));
        }
    }
}

#[test]
fn cartesian_coordinates_are_digits() {
    for size in all_grids() {
        let [x, y, _] = size.map(i64::from);
        check("x", count(size), 8, |r| r % x);
        check("y", count(size), 12, |r| r / x % y);
        check("z", count(size), 10, |r| r / x / y);
        check("row", count(size), 8, |r| r / x);
        check("next in the column", count(size), 14, |r| (r / x + 1) % (y * i64::from(size[2])));
    }
}

#[test]
fn a_transposed_grid_is_a_permutation_of_digits() {
    for size in all_grids() {
        let [x, y, z] = size.map(i64::from);
        check("transpose", count(size), 16, |r| r % x * y * z + r / x);
        check("transpose 3-D", count(size), 20, |r| {
            let (i, j, k) = (r % x, r / x % y, r / x / y);
            k + z * (j + y * i)
        });
    }
}

#[test]
fn the_exchange_partner_of_cg_is_one_formula() {
    for rows in [2, 4, 8, 16, 64, 128] {
        check("cg square", rows * rows, 14, |me| {
            let rows = i64::from(rows);
            me % rows * rows + me / rows
        });
        check("cg", 2 * rows * rows, 16, |me| {
            let rows = i64::from(rows);
            2 * (me / 2 % rows * rows + me / 2 / rows) + me % 2
        });
    }
}

#[test]
fn partners_in_a_binary_tree_are_steps() {
    for ranks in SIZES {
        check("parent", ranks, 5, |r| r & (r - 1));
        check("lowest bit", ranks, 5, |r| r & -r);
        check("sizes of subtrees", ranks, 6, |r| (r & -r) * 512);
        check("plus lowest bit", ranks, 5, |r| r + (r & -r));
        check("with the next bit", ranks, 5, |r| r | (r + 1));
        check("parent but the root", ranks, 12, |r| if r == 0 { -1 } else { r & (r - 1) });
        check("hypercube parent", ranks, 5, |r| r & !r.checked_ilog2().map_or(0, |bit| 1 << bit));
    }
}

#[test]
fn the_levels_of_a_binary_gather_are_strided_pieces() {
    for ranks in CUBES {
        for level in (0..ranks.ilog2()).step_by(2) {
            let (bit, mask) = (1i64 << level, (2i64 << level) - 1);
            check("binary gather", ranks, 30, |r| match r & mask {
                0 => r + bit,
                part if part == bit => r - bit,
                _ => -1,
            });
        }
    }
}

#[test]
fn a_block_distribution_with_a_remainder_is_two_pieces() {
    for ranks in SIZES {
        let n = 1_000_003;
        let (share, rest) = (n / i64::from(ranks), n % i64::from(ranks));
        check("count", ranks, 16, |r| share + i64::from(r < rest));
        check("displacement", ranks, 20, |r| r * share + r.min(rest));
    }
}

#[test]
fn a_pattern_within_a_node_repeats_over_the_nodes() {
    for ranks in SIZES.into_iter().filter(|ranks| ranks % 4 == 0) {
        check("device", ranks, 5, |r| r % 4);
        check("odd pattern", ranks, 40, |r| [17, 3, 99, 4][(r % 4) as usize]);
    }
}

#[test]
fn a_subset_of_ranks_is_as_short_as_all_ranks() {
    for size in all_grids().filter(|size| size[0] > 4 && size[1] > 4) {
        let [x, y, _] = size;
        let chosen = |keep: &dyn Fn(u32, u32) -> bool| -> Vec<u32> {
            (0..count(size)).filter(|r| keep(r % x, r / x % y)).collect()
        };
        let width = i64::from(x);
        let interior = chosen(&|i, j| i > 0 && i < x - 1 && j > 0 && j < y - 1);
        check_over("interior", &interior, 4, |r| r - width);
        check_over("interior row", &interior, 8, |r| r / width);
        let even = chosen(&|i, _| i % 2 == 0);
        check_over("even", &even, 5, |r| r + 1);
        let row = chosen(&|_, j| j == 2);
        check_over("row", &row, 4, |r| r - 2 * width);
    }
}

#[test]
fn few_values_over_irregular_ranks_cost_a_few_bits_each() {
    let noise = |r: i64| {
        let mixed = (r ^ r << 17).wrapping_mul(0x5851_f42d_4c95_7f2d);
        (mixed ^ mixed >> 29).wrapping_mul(0x1b87_3593_cc9e_2d51) >> 40
    };
    for ranks in SIZES {
        check("one bit", ranks, 24 + ranks as usize / 8, |r| noise(r) & 1);
        check("two bits", ranks, 34 + ranks as usize / 4, |r| {
            [5, -1, 1 << 30, 77][(noise(r) & 3) as usize]
        });
        check("near", ranks, 24 + ranks as usize / 2, |r| r + (noise(r) & 15));
        check("rare", ranks, 60 + ranks as usize / 16, |r| match noise(r) & 127 {
            0 => noise(r) & 1023,
            _ => r + 1,
        });
    }
}

#[test]
fn merging_halves_of_the_same_formula_keeps_it() {
    let half = |start| {
        Column::of(RankList::range(start, 512), Column::single(0, 9).formula().copied().unwrap())
    };
    let whole = Column::merge(half(512), half(0));
    assert_eq!(whole, Column::of(RankList::range(0, 1024), *half(0).formula().unwrap()));
}
