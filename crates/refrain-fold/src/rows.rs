//! Signatures over ranks, coded in the order in which tasks use them first.
//!
//! Calls with the same skeleton and as many cells are a *shape*. The cells of a row are guessed from the row of
//! that shape before, from the cells of the same row that were coded before, from other calls of the task (a send has the
//! count of the receive from the same neighbour; an offset is the one before plus the count before), and
//! from the ranks before (what a rank sends is what the other one receives).

use crate::bytes::Bytes;
use crate::numbers::{Followers, GUESSES, Guesses, Numbers, ORIGINS, Place, Series, context};
use crate::roles::{Direction, Functions, ROLES, Role};
use refrain_bytes::range::{Bit, Coder};
use refrain_elastic::{Column, Columns, RankList};
use refrain_signature::cells::{self, Cells};
use refrain_signature::head::Head;
use refrain_structure::elastic::{Elastic, Variant};
use refrain_structure::group::{Outcomes, Row};
use refrain_structure::{read, write};
use std::collections::HashMap;

/// Places of a shape; cells behind these share them.
const MOST_PLACES: usize = 128;
/// The most bytes of a string that is read.
const MOST_BYTES: usize = 1 << 24;

/// What a row consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Numbers only, the same on all ranks.
    Plain,
    /// Some numbers are columns.
    Columns,
    /// Outcomes vary; they are coded later, with the calls.
    Varying,
    /// Outcomes vary, and each rank has its own.
    PerRank,
    /// Anything else, as bytes.
    General,
}

/// Rows with the same skeleton and as many cells.
#[derive(Debug, Default)]
struct Shape {
    split: usize,
    length: usize,
    roles: Vec<Role>,
    /// The cells in the order in which they are coded.
    order: Vec<u32>,
    places: Vec<Place>,
    /// The last row, the one before, and their numbers in the task.
    last: Vec<i64>,
    before: Vec<i64>,
    number: i64,
    /// The rows of the task, and those of the task before.
    here: Vec<(i64, Vec<i64>)>,
    there: Vec<(i64, Vec<i64>)>,
    /// The task of `here`.
    task: u32,
    direction: Direction,
}

/// What is known of a skeleton.
#[derive(Debug, Default)]
struct Skeleton {
    kinds: [Option<[Bit; 2]>; 2],
    /// Its shapes.
    shapes: Vec<usize>,
    which: Series,
    /// The shape of the last row.
    last: Option<usize>,
    /// The number of the last row in its task, and how many rows after the one before it was.
    number: i64,
    distance: i64,
}

/// Codes rows.
#[derive(Debug)]
pub(crate) struct RowCoder {
    functions: Functions,
    skeletons: Vec<Skeleton>,
    shapes: Vec<Shape>,
    followers: Followers,
    spelled: Vec<Numbers>,
    lengths: Numbers,
    bytes: Bytes,
    /// The last value with each role.
    recent: [i64; ROLES],
    /// Numbers the tasks.
    task: u32,
    rank: i64,
    rank_before: i64,
    /// How many more cells may be read.
    cells_left: u64,
    /// By sender, receiver and tag.
    messages: HashMap<[i64; 3], Messages>,
}

/// The counts of the messages from one rank to another with one tag, as the first of the two ranks had them.
#[derive(Debug, Default)]
struct Messages {
    /// The task that had them first.
    task: u32,
    counts: Vec<i64>,
    /// The task that has them now, and how many of them it has had.
    other: u32,
    met: usize,
}

/// So many messages may be left out by the other side.
const MOST_LEFT_OUT: usize = 16;

impl Messages {
    /// The count that the other side had.
    fn expected(&self, task: u32) -> Option<i64> {
        if self.task == task {
            return None;
        }
        let met = if self.other == task { self.met } else { 0 };
        self.counts.get(met).copied()
    }

    fn note(&mut self, task: u32, count: i64) {
        if self.counts.is_empty() {
            self.task = task;
        }
        if self.task == task {
            self.counts.push(count);
            return;
        }
        if self.other != task {
            (self.other, self.met) = (task, 0);
        }
        let rest = self.counts.get(self.met..).unwrap_or_default();
        if let Some(at) = rest.iter().take(MOST_LEFT_OUT).position(|other| *other == count) {
            self.met += at + 1;
        }
    }
}

/// A row as it is given to an encoder.
pub(crate) struct Given<'a> {
    row: &'a Row,
    simple: Option<write::Simple>,
}

impl<'a> Given<'a> {
    /// The row.
    pub fn of(row: &'a Row) -> Given<'a> {
        Given { row, simple: write::Simple::of_cells(row) }
    }

    /// Whether a decoded row is this one; it has no statistics.
    pub fn is(&self, made: &Row) -> bool {
        let is_same = match &self.simple {
            // A cell with a column has an arbitrary number.
            Some(simple) => Some(simple) == write::Simple::of_cells(made).as_ref(),
            None => self.row.cells == made.cells && self.row.outcome == made.outcome,
        };
        is_same && self.row.outcomes == made.outcomes
    }

    fn kind(&self) -> Kind {
        match (&self.simple, &self.row.outcomes) {
            (Some(simple), Outcomes::Constant) if simple.columns.is_empty() => Kind::Plain,
            (Some(_), Outcomes::Constant) => Kind::Columns,
            (Some(simple), Outcomes::PerRank) if simple.columns.is_empty() => Kind::PerRank,
            (Some(simple), Outcomes::Shared { rows, .. })
                if simple.columns.is_empty() && rows.iter().all(|row| row.constant().is_some()) =>
            {
                Kind::Varying
            }
            _ => Kind::General,
        }
    }
}

impl RowCoder {
    /// Before the first task.
    pub fn new(functions: Functions, cells: u64) -> RowCoder {
        RowCoder {
            functions,
            skeletons: Vec::new(),
            shapes: Vec::new(),
            followers: Followers::default(),
            spelled: vec![Numbers::default(); ROLES],
            lengths: Numbers::default(),
            bytes: Bytes::new(1 << 12),
            recent: [0; ROLES],
            task: 0,
            rank: 0,
            rank_before: 0,
            cells_left: cells,
            messages: HashMap::new(),
        }
    }

    /// Begins the rows of a task.
    pub fn begin(&mut self, rank: u32) {
        self.task += 1;
        (self.rank_before, self.rank) = (self.rank, rank.into());
    }

    /// Codes a row with this skeleton, which has this number in its task. None if the bytes are damaged.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        skeleton: u32,
        number: u32,
        ranks: &RankList,
        given: Option<&Given<'_>>,
    ) -> Option<Row> {
        let at = skeleton as usize;
        if self.skeletons.len() <= at {
            self.skeletons.resize_with(at + 1, Skeleton::default);
        }
        let kind = self.code_kind(coder, at, given.map(Given::kind));
        if kind == Kind::General {
            let mut bytes = Vec::new();
            given.into_iter().for_each(|given| write::put_general(&mut bytes, given.row));
            let bytes = self.bytes.code(coder, &bytes, MOST_BYTES)?;
            return read::row(&bytes, ranks);
        }
        let mut cut = given.and_then(|given| given.simple.clone());
        if let (Kind::Varying, Some(simple)) = (kind, &mut cut) {
            simple.numbers.truncate(simple.split);
        }
        let simple = cut.as_ref();
        let shape = self.code_shape(coder, at, simple)?;
        let numbers = self.code_numbers(
            coder,
            (at, shape),
            number,
            simple.map(|simple| simple.numbers.as_slice()),
        )?;
        let split = self.shapes.get(shape)?.split;
        let columns = match kind {
            Kind::Columns => self.code_columns(
                coder,
                shape,
                ranks,
                simple.map(|simple| simple.columns.as_slice()),
            )?,
            _ => Vec::new(),
        };
        let outcomes = match kind {
            Kind::Varying => {
                Outcomes::Shared { rows: Vec::new(), runs: Vec::new(), misses: Vec::new() }
            }
            Kind::PerRank => Outcomes::PerRank,
            Kind::Plain | Kind::Columns | Kind::General => Outcomes::Constant,
        };
        row(&numbers, split, columns, outcomes)
    }

    fn code_kind(&mut self, coder: &mut impl Coder, skeleton: usize, given: Option<Kind>) -> Kind {
        let Some(skeleton) = self.skeletons.get_mut(skeleton) else { return Kind::General };
        let [first, second] = &mut skeleton.kinds;
        let first = first.get_or_insert([Bit::EVEN; 2]);
        let is_plain = coder.bit(&mut first[0], given == Some(Kind::Plain));
        if is_plain {
            return Kind::Plain;
        }
        let is_columns = coder.bit(&mut first[1], given == Some(Kind::Columns));
        if is_columns {
            return Kind::Columns;
        }
        let second = second.get_or_insert([Bit::EVEN; 2]);
        if coder.bit(&mut second[0], given == Some(Kind::Varying)) {
            return Kind::Varying;
        }
        match coder.bit(&mut second[1], given == Some(Kind::PerRank)) {
            true => Kind::PerRank,
            false => Kind::General,
        }
    }

    /// Codes which shape of its skeleton a row has.
    fn code_shape(
        &mut self,
        coder: &mut impl Coder,
        at: usize,
        given: Option<&write::Simple>,
    ) -> Option<usize> {
        let skeleton = self.skeletons.get_mut(at)?;
        let known = skeleton.shapes.len() as i64;
        let which = given.map_or(0, |simple| {
            let is_same = |shape: &usize| {
                self.shapes.get(*shape).is_some_and(|shape| {
                    shape.split == simple.split && shape.length == simple.numbers.len()
                })
            };
            skeleton.shapes.iter().position(is_same).map_or(known, |which| which as i64)
        });
        let kind = 0x1000 + at as u64;
        let which = skeleton.which.code(coder, &mut self.followers, kind, [known, 0, 0, 0], which);
        if which != known {
            skeleton.last = skeleton.shapes.get(usize::try_from(which).ok()?).copied();
            return skeleton.last;
        }
        let split = given.map_or(0, |simple| simple.split as u64);
        let more = given.map_or(0, |simple| (simple.numbers.len() - simple.split) as u64);
        let split = self.lengths.code(coder, split);
        let more = self.lengths.code(coder, more);
        let limit = |n: u64| usize::try_from(n).ok().filter(|n| *n <= MOST_BYTES);
        let (split, more) = (limit(split)?, limit(more)?);
        let length = split + more;
        let mut shape = Shape { split, length, ..Shape::default() };
        if let Some(like) = skeleton.last.and_then(|last| self.shapes.get(last)) {
            // Mostly an array with another length: what comes before it is as in the last row.
            shape.last.clone_from(&like.last);
            shape.before.clone_from(&like.before);
            shape.places.clone_from(&like.places);
            shape.number = like.number;
        }
        skeleton.shapes.push(self.shapes.len());
        skeleton.last = Some(self.shapes.len());
        self.shapes.push(shape);
        skeleton.last
    }

    fn code_numbers(
        &mut self,
        coder: &mut impl Coder,
        (skeleton, at): (usize, usize),
        number: u32,
        given: Option<&[i64]>,
    ) -> Option<Vec<i64>> {
        let shape = self.shapes.get_mut(at)?;
        self.cells_left = self.cells_left.checked_sub(shape.length as u64 + 1)?;
        let number = i64::from(number);
        let skeleton = self.skeletons.get_mut(skeleton)?;
        let distance = number - skeleton.number;
        let distance_before = std::mem::replace(&mut skeleton.distance, distance);
        skeleton.number = number;
        if shape.task != self.task {
            shape.task = self.task;
            shape.there = std::mem::take(&mut shape.here);
        }
        if shape.order.len() != shape.length {
            shape.order = (0..shape.length as u32).collect();
            shape.roles.resize(shape.length, Role::Other);
            shape.places.resize(shape.length.min(MOST_PLACES), Place::default());
            shape.last.resize(shape.length, 0);
            shape.before.resize(shape.length, 0);
        }
        let mut numbers = vec![0i64; shape.length];
        let (mut one, mut two) = (0, 0);
        let (mut peer, mut tag, mut count) = (0, 0, 0);
        let count_at = shape.roles.iter().position(|role| *role == Role::Count);
        let last_count = count_at.and_then(|at| shape.last.get(at)).copied().unwrap_or(0);
        let before_count = count_at.and_then(|at| shape.before.get(at)).copied().unwrap_or(0);
        let beside = shape.there.get(shape.here.len()).or(shape.there.last());
        let salt = (at as u64) << 32;
        for &cell in &shape.order {
            let index = cell as usize;
            let role = shape.roles[index];
            let (last, before) = (shape.last[index], shape.before[index]);
            let kind = salt | u64::from(cell) << 4;
            let by_row = context(kind, &[one, two]);
            let by_time = context(kind | 1, &[last, before]);
            let by_role = context(role as u64, &[last]);
            let by_peer = context(role as u64 | 0x100, &[peer, tag]);
            let by_pair = context(role as u64 | 0x200, &[peer, one]);
            let mut guesses: Guesses = [last; GUESSES];
            guesses[0] = last;
            guesses[1] = last.wrapping_add(last.wrapping_sub(before));
            guesses[2] = self.followers.get(by_row);
            guesses[3] = self.followers.get(by_time);
            guesses[4] = last.wrapping_add(number - shape.number);
            guesses[5] = self.recent[role as usize];
            guesses[6] = self.followers.get(by_role);
            guesses[7] = self.followers.get(by_peer);
            let step = last.wrapping_sub(before);
            guesses[8] = match step.checked_rem(before_count) {
                Some(0) => last.wrapping_add(last_count.wrapping_mul(step / before_count)),
                _ => last,
            };
            guesses[9] = match last.checked_rem(last_count) {
                Some(0) => i64::wrapping_mul(count, last / last_count),
                _ => last,
            };
            guesses[10] = self.recent[role as usize].wrapping_add(1);
            guesses[11] = one;
            guesses[12] = self.followers.get(by_pair);
            if let Some((there, beside)) = beside {
                let value = beside[index];
                guesses[13] = value;
                guesses[14] = value.wrapping_add(self.rank - self.rank_before);
                guesses[15] = value.wrapping_add(number - there);
            }
            let message = match (role, shape.direction) {
                (Role::Count, Direction::Send) => Some([self.rank, peer, tag]),
                (Role::Count, Direction::Receive) => Some([peer, self.rank, tag]),
                _ => None,
            };
            let other_side = message.and_then(|key| self.messages.get(&key)?.expected(self.task));
            guesses[16] = other_side.unwrap_or(last);
            // The length of an array of the requests that were made since the last one, and the first of them.
            guesses[17] = last.wrapping_add(distance - distance_before);
            guesses[18] = last.wrapping_add(distance_before);
            let origins: [i64; ORIGINS] = [0, last, self.recent[role as usize], number];
            let place = &mut shape.places[match index {
                index if index < MOST_PLACES => index,
                index => MOST_PLACES / 2 + index % (MOST_PLACES / 2),
            }];
            let value = given.map_or(0, |given| given.get(index).copied().unwrap_or(0));
            let spelled = &mut self.spelled[role as usize];
            let value = place.code(coder, &guesses, &origins, spelled, value);
            for context in [by_row, by_time, by_role, by_peer, by_pair] {
                self.followers.set(context, value);
            }
            if let Some(key) = message {
                self.messages.entry(key).or_default().note(self.task, value);
            }
            match role {
                Role::Peer => peer = value,
                Role::Tag => tag = value,
                Role::Count => count = value,
                _ => {}
            }
            self.recent[role as usize] = value;
            (one, two) = (value, one);
            numbers[index] = value;
        }
        if shape.here.is_empty() && shape.there.is_empty() {
            let split = shape.split;
            let mut bytes = Vec::new();
            numbers[..split].iter().for_each(|number| cells::put(&mut bytes, *number));
            if let Some(head) = Head::read(&mut Cells::new(&bytes)) {
                shape.roles = self.functions.roles(head.function, &bytes, shape.length);
                shape.roles[split..].fill(Role::Outcome);
                shape.direction = self.functions.direction(head.function);
                let first = |cell: &u32| match shape.roles[*cell as usize] {
                    _ if (*cell as usize) < head.cells() => 0,
                    Role::Peer => 1,
                    Role::Tag => 2,
                    _ => 3,
                };
                shape.order.sort_by_key(first);
            }
        }
        shape.here.push((number, numbers.clone()));
        shape.before = std::mem::replace(&mut shape.last, numbers.clone());
        shape.number = number;
        Some(numbers)
    }

    fn code_columns(
        &mut self,
        coder: &mut impl Coder,
        at: usize,
        ranks: &RankList,
        given: Option<&[(u32, Column)]>,
    ) -> Option<Vec<(u32, Column)>> {
        let mut bytes = Vec::new();
        if let Some(columns) = given {
            cells::put_list(&mut bytes, columns.iter(), |out, (index, column)| {
                cells::put_unsigned(out, (*index).into());
                let mut values = Vec::new();
                column.encode_values(&mut values);
                cells::put_bytes(out, &values);
            });
        }
        let bytes = self.bytes.code(coder, &bytes, MOST_BYTES)?;
        let length = self.shapes.get(at)?.length;
        let mut cells = Cells::new(&bytes);
        let columns = cells.get_list(|cells| {
            let index = cells.get_u32().filter(|index| (*index as usize) < length)?;
            let mut values = cells.get_bytes()?;
            let column = Column::decode_values(&mut values, ranks).ok()?;
            values.is_empty().then_some((index, column))
        })?;
        cells.is_empty().then_some(columns)
    }
}

/// A row of numbers and columns.
fn row(
    numbers: &[i64],
    split: usize,
    columns: Vec<(u32, Column)>,
    outcomes: Outcomes,
) -> Option<Row> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (index, column) in columns {
        match (index as usize).checked_sub(split) {
            None => first.push((index, column)),
            Some(index) => second.push((index as u32, column)),
        }
    }
    let elastic = |numbers: &[i64], columns| {
        let mut cells = Vec::new();
        numbers.iter().for_each(|number| cells::put(&mut cells, *number));
        Elastic { variants: vec![Variant { ranks: None, cells, columns: Columns::new(columns) }] }
    };
    Some(Row {
        cells: elastic(numbers.get(..split)?, first),
        outcome: elastic(numbers.get(split..)?, second),
        outcomes,
    })
}
