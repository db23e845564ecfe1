//! The loop nest of several groups of ranks as bytes.
//!
//! The tree comes first to last; at each node comes what each group does there: whether it has the node, then its trip
//! counts, or which rows its calls are. Rows of a task are numbered here in the order in which the tree names them
//! first.

use crate::numbers::{Followers, Series};
use crate::seqs::{SeqModel, Shared};
use refrain_bytes::range::{Bit, Coder};
use refrain_nest::{Grouped, Nest, Places};
use std::collections::HashMap;

/// Loops nest at most this deep.
const DEEPEST: usize = 400;

/// The rows that a group of ranks has, in the order in which the tree names them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// The skeleton of each row.
    pub skeletons: Vec<u32>,
    /// The rows of each skeleton.
    of: HashMap<u32, Vec<u32>>,
    /// For an encoder: the number that each row of the task has here.
    numbers: HashMap<u32, u32>,
}

impl Rows {
    fn add(&mut self, skeleton: u32) -> u32 {
        let number = self.skeletons.len() as u32;
        self.skeletons.push(skeleton);
        self.of.entry(skeleton).or_default().push(number);
        number
    }
}

/// Codes nests.
#[derive(Debug)]
pub(crate) struct TreeCoder {
    shared: Shared,
    sizes: Series,
    skeletons: Series,
    is_loop: Vec<Bit>,
    /// Numbers nodes.
    node: u64,
    most_skeleton: i64,
    /// How many more nodes may be read.
    nodes_left: u64,
    most: u64,
}

impl TreeCoder {
    /// Reads at most so many nodes, runs and groups.
    pub fn new(most: u64) -> TreeCoder {
        TreeCoder {
            shared: Shared { followers: Followers::default(), left: most },
            sizes: Series::default(),
            skeletons: Series::default(),
            is_loop: vec![Bit::EVEN; 3],
            node: 0,
            most_skeleton: 0,
            nodes_left: most,
            most,
        }
    }

    /// How many nodes, runs and groups it has coded.
    pub fn made(&self) -> u64 {
        (self.most - self.shared.left).max(self.most - self.nodes_left)
    }

    /// Codes a nest; `rows` has an entry for each group, `groups` says which of them the nest is of. Values are numbers
    /// of rows of the task in `given`, and numbers of [`Rows`] in the result.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        rows: &mut [Rows],
        groups: &[usize],
        given: Option<&[Grouped]>,
    ) -> Option<Vec<Grouped>> {
        let iterations: Vec<(usize, u64)> = groups.iter().map(|group| (*group, 1)).collect();
        self.body(coder, rows, &iterations, given, 0)
    }

    fn body(
        &mut self,
        coder: &mut impl Coder,
        rows: &mut [Rows],
        iterations: &[(usize, u64)],
        given: Option<&[Grouped]>,
        depth: usize,
    ) -> Option<Vec<Grouped>> {
        if depth > DEEPEST {
            return None;
        }
        let size = given.map_or(0, |body| body.len() as i64);
        let size = self.sizes.code(coder, &mut self.shared.followers, 1, [1, 2, 3, 0], size);
        let size = u64::try_from(size).ok()?;
        self.nodes_left = self.nodes_left.checked_sub(size)?;
        let mut body = Vec::new();
        for at in 0..size as usize {
            let node = given.and_then(|body| body.get(at));
            body.push(self.node(coder, rows, iterations, node, depth)?);
        }
        Some(body)
    }

    fn node(
        &mut self,
        coder: &mut impl Coder,
        rows: &mut [Rows],
        iterations: &[(usize, u64)],
        given: Option<&Grouped>,
        depth: usize,
    ) -> Option<Grouped> {
        self.node += 1;
        let node = self.node;
        let is_loop = matches!(given, Some(Nest::Loop { .. }));
        let is_loop = coder.bit(self.is_loop.get_mut(depth.min(2))?, is_loop);
        // Which of the groups have the node.
        let has = given.map(Grouped::groups).unwrap_or_default();
        let mut models = [Bit::EVEN; 2];
        let mut before = true;
        let mut present = Vec::with_capacity(iterations.len());
        for (group, visits) in iterations {
            let is_present = has.binary_search(group).is_ok();
            before = coder.bit(models.get_mut(usize::from(before))?, is_present);
            if before {
                present.push((*group, *visits));
            }
        }
        let mut model = SeqModel::default();
        if is_loop {
            let (counts, inner) = match given {
                Some(Nest::Loop { count, body }) => (Some(count), Some(body.as_slice())),
                _ => (None, None),
            };
            let mut all = Vec::with_capacity(present.len());
            let mut inside = Vec::with_capacity(present.len());
            for (group, visits) in present {
                let given = counts.and_then(|counts| of(counts, group));
                let trips = model.code(coder, &mut self.shared, node, None, visits, given)?;
                inside.push((group, trips.sum()));
                all.push((group, trips));
            }
            let body = self.body(coder, rows, &inside, inner, depth + 1)?;
            return Some(Nest::Loop { count: all, body });
        }
        let places = match given {
            Some(Nest::Leaf(places)) => Some(places),
            _ => None,
        };
        let skeleton = places.map_or(0, |places| i64::from(places.skeleton));
        let hints = [self.most_skeleton, 0, 0, 0];
        let skeleton = self.skeletons.code(coder, &mut self.shared.followers, 2, hints, skeleton);
        self.most_skeleton = self.most_skeleton.max(skeleton.checked_add(1)?);
        let skeleton = u32::try_from(skeleton).ok()?;
        let mut names = Names::default();
        let mut groups = Vec::with_capacity(present.len());
        for (group, visits) in present {
            let given = places.and_then(|places| of(&places.groups, group));
            let rows = rows.get_mut(group)?;
            // The rows by the order of their first visits at this leaf.
            let mut locals: HashMap<u32, u64> = HashMap::new();
            let mut firsts: Vec<u32> = Vec::new();
            let given = given.map(|values| {
                values.map(|row| {
                    *locals.entry(row).or_insert_with(|| {
                        firsts.push(row);
                        firsts.len() as u64 - 1
                    })
                })
            });
            let mut known = 0;
            let values = model.code(
                coder,
                &mut self.shared,
                node,
                Some(&mut known),
                visits,
                given.as_ref(),
            )?;
            let numbers =
                names.code(coder, &mut self.shared, node, rows, skeleton, known, &firsts)?;
            let mut is_known = true;
            let values = values.map(|local| match numbers.get(local as usize) {
                Some(number) => *number,
                None => {
                    is_known = false;
                    0
                }
            });
            groups.push((group, is_known.then_some(values)?));
        }
        Some(Nest::Leaf(Places { skeleton, groups }))
    }
}

fn of<T>(all: &[(usize, T)], group: usize) -> Option<&T> {
    all.iter().find(|(number, _)| *number == group).map(|(_, value)| value)
}

/// Which rows of the group the rows at a leaf are: mostly new ones.
#[derive(Debug, Default)]
struct Names {
    is_known: Option<Bit>,
    which: Series,
}

impl Names {
    #[expect(clippy::too_many_arguments, reason = "one step of the coding of a leaf")]
    fn code(
        &mut self,
        coder: &mut impl Coder,
        shared: &mut Shared,
        node: u64,
        rows: &mut Rows,
        skeleton: u32,
        count: i64,
        firsts: &[u32],
    ) -> Option<Vec<u32>> {
        let model = self.is_known.get_or_insert(Bit::EVEN);
        let mut numbers = Vec::new();
        let mut last = -1i64;
        for at in 0..usize::try_from(count).ok()? {
            let row = firsts.get(at);
            let number = row.and_then(|row| rows.numbers.get(row)).copied();
            let candidates = rows.of.get(&skeleton).map_or(0, Vec::len);
            if candidates > 0 && coder.bit(model, number.is_some()) {
                let all = rows.of.get(&skeleton)?;
                let which =
                    number.map_or(0, |number| all.binary_search(&number).unwrap_or(0) as i64);
                let hints = [last + 1, 0, 0, 0];
                let which =
                    self.which.code(coder, &mut shared.followers, node << 3 | 7, hints, which);
                last = which;
                numbers.push(*all.get(usize::try_from(which).ok()?)?);
                continue;
            }
            let number = rows.add(skeleton);
            if let Some(row) = row {
                rows.numbers.insert(*row, number);
            }
            numbers.push(number);
        }
        Some(numbers)
    }
}
