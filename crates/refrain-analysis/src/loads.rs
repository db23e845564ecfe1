//! The load of each rank: time inside MPI, time computing between calls, and which rank computes longest.
//!
//! Ranks that wait in MPI are rarely the cause. The cause is a rank that computes longer before it calls MPI. A *gap* is
//! the time from the return of a thread's call to the start of its next one. Gaps are kept by the pair of calls
//! around them: function and call site. On a machine with more processes than cores, some gaps include time in which
//! the process did not run. So each pair counts with the median of its gaps ([`RankLoad::typical`]), and pairs that
//! occur often decide first ([`Loads::longest`]).
//!
//! Memory grows with the different pairs of each rank, not with the number of calls.

use refrain_reader::payload::has_payload;
use refrain_reader::{CallTrace, Item, Source, TraceError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A pair that occurs at least so often on a rank has a median that single gaps do not decide.
const OFTEN: u64 = 5;

/// A rank computes clearly longer than another by at least this factor,
const CLEARLY: f64 = 1.2;

/// and by at least this share of the run. It is small: ranks that share a core spend most of a run not running.
const SHARE: f64 = 0.001;

/// The same where gaps that occur rarely count too.
const RARE_SHARE: f64 = 0.2;

/// Where calls are made: a function, and the call site if call sites were recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The function.
    pub function: Arc<str>,
    /// The call site.
    pub site: Option<Arc<str>>,
}

/// A call, as far as it matters here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<'a> {
    /// The function.
    pub function: &'a str,
    /// The call site, if it was recorded.
    pub site: Option<&'a Arc<str>>,
    /// How many calls it was made inside of: the time of such a call is that of the outermost.
    pub depth: u32,
    /// Its payload in bytes, if it is known.
    pub bytes: Option<u64>,
    /// Whether it has a payload of unknown size.
    pub is_unsized: bool,
    /// Nanoseconds at which it began and returned, if times were recorded; the second is none if it never returned.
    pub span: Option<(u64, Option<u64>)>,
}

/// The gaps between two points on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The numbers of the points ([`Loads::point`]) before and after the gap.
    pub points: (u32, u32),
    /// How often it occurs.
    pub count: u64,
    /// The median gap in nanoseconds, within 2 %.
    pub median: u64,
}

impl Pair {
    fn typical(&self) -> u64 {
        self.median.saturating_mul(self.count)
    }
}

/// The load of a rank, over all its threads. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankLoad {
    /// The rank.
    pub rank: i32,
    /// Its calls.
    pub calls: u64,
    /// Payload of its calls; see [`refrain_reader::payload`].
    pub bytes: u64,
    /// Calls with a payload of unknown size.
    pub unsized_calls: u64,
    /// Time inside calls, without [`RankLoad::startup`].
    pub inside: u64,
    /// Time inside `MPI_Init` and `MPI_Finalize`.
    pub startup: u64,
    /// Time between calls.
    pub computing: u64,
    /// The same, with every gap counted as the median of its pair.
    pub typical: u64,
    /// From the return of the first call to the start of the last, in the thread where that is longest.
    pub elapsed: u64,
    /// The pairs of points with gaps, by their numbers.
    pub pairs: Vec<Pair>,
}

impl RankLoad {
    fn typical_of(&self, least_count: u64) -> u64 {
        let pairs = self.pairs.iter().filter(|pair| pair.count >= least_count);
        pairs.map(Pair::typical).fold(0, u64::saturating_add)
    }

    fn pair(&self, points: (u32, u32)) -> Option<&Pair> {
        self.pairs.binary_search_by_key(&points, |pair| pair.points).ok().map(|at| &self.pairs[at])
    }
}

/// The least and the greatest of some values.
pub type Range = (u64, u64);

/// The ranks that compute longest, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Longest {
    /// Those of these ranks that have the gap below, in increasing order: at most half of all.
    pub ranks: Vec<i32>,
    /// The calls around the gap in which they lose most.
    pub between: (Point, Point),
    /// Their median gaps there, in nanoseconds.
    pub medians: Range,
    /// How often the gap occurs on them.
    pub counts: Range,
    /// The same of the other ranks: medians and counts; none if the gap does not occur there.
    pub others: Option<(Range, Range)>,
    /// How much longer the slowest of them computes than any other rank, typically, in nanoseconds.
    pub excess: u64,
    /// The same as a fraction of the run.
    pub share: f64,
}

/// The loads of ranks.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// By rank.
    pub ranks: Vec<RankLoad>,
    /// Whether the times of calls are known.
    pub is_timed: bool,
    points: Points,
}

impl Loads {
    /// The loads of the processes with these rank indices, or of all: every call is read once.
    pub fn of(trace: &CallTrace, wanted: Option<&BTreeSet<u32>>) -> Result<Loads, TraceError> {
        let mut loads =
            Loads { is_timed: trace.has_times() || trace.has_raw(), ..Loads::default() };
        let is_wanted = |index: &u32| wanted.is_none_or(|wanted| wanted.contains(index));
        for process in trace.processes().filter(|process| is_wanted(&process.rank_index())) {
            let mut rank = loads.rank(process.rank());
            for task in process.tasks() {
                rank.begin_thread();
                for item in task.items(Source::RecordTimes)? {
                    let Item::Call(call) = item? else { continue };
                    let bytes = call.bytes();
                    rank.call(&Observed {
                        function: call.name(),
                        site: call.site(),
                        depth: call.depth(),
                        bytes,
                        is_unsized: bytes.is_none() && has_payload(call.function()),
                        span: call.span().map(|span| (span.start, span.end)),
                    });
                }
            }
            rank.finish();
        }
        Ok(loads)
    }

    /// Takes in the calls of a rank.
    pub fn rank(&mut self, rank: i32) -> Collector<'_> {
        Collector {
            load: RankLoad { rank, ..RankLoad::default() },
            gaps: HashMap::new(),
            first: None,
            last: None,
            loads: self,
        }
    }

    /// A point by its number.
    pub fn point(&self, number: u32) -> Option<&Point> {
        self.points.all.get(number as usize)
    }

    /// The ranks that compute clearly longer than all others, if there are such ranks.
    pub fn longest(&self) -> Option<Longest> {
        let elapsed = self.ranks.iter().map(|load| load.elapsed).max()? as f64;
        let steady = || self.split(OFTEN, SHARE * elapsed);
        let top = steady().or_else(|| self.split(1, RARE_SHARE * elapsed))?;
        let (slow, others): (Vec<&RankLoad>, Vec<&RankLoad>) =
            self.ranks.iter().partition(|load| top.contains(&load.rank));
        // Where the slowest of them loses most against the other ranks.
        let slowest = slow.iter().max_by_key(|load| load.typical)?;
        let excess = |pair: &&Pair| {
            let mut typical: Vec<u64> =
                others.iter().map(|load| load.pair(pair.points).map_or(0, Pair::typical)).collect();
            typical.sort_unstable();
            let usual = typical.get(typical.len() / 2).copied().unwrap_or(0);
            pair.typical().saturating_sub(usual)
        };
        let points = slowest.pairs.iter().max_by_key(excess)?.points;
        // A rank that is as slow elsewhere is not named with this gap.
        let slow: Vec<&RankLoad> =
            slow.iter().copied().filter(|load| load.pair(points).is_some()).collect();
        let (medians, counts) = ranges(&slow, points)?;
        let most = others.iter().map(|load| load.typical).max().unwrap_or(0);
        let excess = slowest.typical.saturating_sub(most);
        Some(Longest {
            ranks: slow.iter().map(|load| load.rank).collect(),
            between: (self.point(points.0)?.clone(), self.point(points.1)?.clone()),
            medians,
            counts,
            others: ranges(&others, points),
            excess,
            share: excess as f64 / elapsed.max(1.0),
        })
    }

    /// The ranks above the widest step between the typical times of two ranks, where it is wide enough. Only pairs
    /// that occur at least so often count.
    fn split(&self, least_count: u64, least_step: f64) -> Option<BTreeSet<i32>> {
        let mut typical: Vec<(u64, i32)> =
            self.ranks.iter().map(|load| (load.typical_of(least_count), load.rank)).collect();
        typical.sort_unstable_by(|a, b| b.cmp(a));
        let ratio = |k: &usize| typical[k - 1].0 as f64 / typical[*k].0.max(1) as f64;
        let wide = |k: &usize| {
            let step = typical[k - 1].0.saturating_sub(typical[*k].0) as f64;
            ratio(k) >= CLEARLY && step > 0.0 && step >= least_step
        };
        let steps = (1..=typical.len() / 2).filter(wide);
        let above = steps.max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        Some(typical[..above].iter().map(|(_, rank)| *rank).collect())
    }
}

/// Medians and counts of a pair on some ranks; none if it does not occur there.
fn ranges(loads: &[&RankLoad], points: (u32, u32)) -> Option<(Range, Range)> {
    let pairs: Vec<&Pair> = loads.iter().filter_map(|load| load.pair(points)).collect();
    let range = |of: fn(&Pair) -> u64| {
        let values = pairs.iter().map(|pair| of(pair));
        Some((values.clone().min()?, values.max()?))
    };
    Some((range(|pair| pair.median)?, range(|pair| pair.count)?))
}

/// Takes in the calls of one rank; see [`Loads::rank`].
pub struct Collector<'l> {
    loads: &'l mut Loads,
    load: RankLoad,
    gaps: HashMap<(u32, u32), Gaps>,
    /// When the first call of the thread returned.
    first: Option<u64>,
    /// When the last call of the thread returned, and where it was made.
    last: Option<(u64, u32)>,
}

impl Collector<'_> {
    /// The calls that follow are those of another thread.
    pub fn begin_thread(&mut self) {
        (self.first, self.last) = (None, None);
    }

    /// Takes in a call.
    pub fn call(&mut self, call: &Observed<'_>) {
        let load = &mut self.load;
        load.calls += 1;
        load.bytes = load.bytes.saturating_add(call.bytes.unwrap_or(0));
        load.unsized_calls += u64::from(call.is_unsized);
        let Some((start, end)) = call.span.filter(|_| call.depth == 0) else { return };
        let point = self.loads.points.number(call.function, call.site);
        if let Some((returned, before)) = self.last {
            let gap = start.saturating_sub(returned);
            load.computing = load.computing.saturating_add(gap);
            self.gaps.entry((before, point)).or_default().note(gap);
        }
        let first = *self.first.get_or_insert(end.unwrap_or(start));
        load.elapsed = load.elapsed.max(start.saturating_sub(first));
        // A call that never returned: the thread does not compute after it.
        let Some(end) = end else {
            self.last = None;
            return;
        };
        let inside = if is_startup(call.function) { &mut load.startup } else { &mut load.inside };
        *inside = inside.saturating_add(end.saturating_sub(start));
        self.last = Some((end, point));
    }

    /// The rank is complete.
    pub fn finish(mut self) {
        let pair = |(points, gaps): (&(u32, u32), &Gaps)| Pair {
            points: *points,
            count: gaps.count,
            median: gaps.median(),
        };
        self.load.pairs = self.gaps.iter().map(pair).collect();
        self.load.pairs.sort_unstable_by_key(|pair| pair.points);
        self.load.typical = self.load.typical_of(1);
        self.loads.ranks.push(self.load);
    }
}

/// Whether a function starts or ends MPI: its time says nothing about the program.
pub fn is_startup(function: &str) -> bool {
    matches!(function, "MPI_Init" | "MPI_Init_thread" | "MPI_Finalize")
}

/// Points by number.
#[derive(Clone, Debug, Default)]
struct Points {
    all: Vec<Point>,
    /// By site (empty if there is none) and function.
    numbers: HashMap<Arc<str>, HashMap<Arc<str>, u32>>,
}

impl Points {
    fn number(&mut self, function: &str, site: Option<&Arc<str>>) -> u32 {
        let of_site = self.numbers.get(site.map_or("", |site| site));
        if let Some(number) = of_site.and_then(|functions| functions.get(function)) {
            return *number;
        }
        let number = self.all.len() as u32;
        let function: Arc<str> = function.into();
        let key = site.cloned().unwrap_or_else(|| "".into());
        self.numbers.entry(key).or_default().insert(function.clone(), number);
        self.all.push(Point { function, site: site.cloned() });
        number
    }
}

/// The distribution of gaps: 32 bins for each power of two.
#[derive(Clone, Debug, Default)]
struct Gaps {
    count: u64,
    bins: BTreeMap<u16, u64>,
}

/// Bits of a value that its bin keeps.
const KEPT_BITS: u32 = 6;

impl Gaps {
    fn note(&mut self, gap: u64) {
        self.count += 1;
        *self.bins.entry(Gaps::bin(gap)).or_default() += 1;
    }

    /// The lower one of two medians.
    fn median(&self) -> u64 {
        let mut left = self.count.saturating_sub(1) / 2;
        for (bin, count) in &self.bins {
            match left.checked_sub(*count) {
                Some(rest) => left = rest,
                None => return Gaps::middle(*bin),
            }
        }
        0
    }

    fn bin(value: u64) -> u16 {
        let shift = (64 - value.leading_zeros()).saturating_sub(KEPT_BITS);
        // Of a larger value the highest bit is known: 32 values for each shift remain.
        (shift << (KEPT_BITS - 1)) as u16 + (value >> shift) as u16
    }

    fn middle(bin: u16) -> u64 {
        let half = 1 << (KEPT_BITS - 1);
        let shift = (u32::from(bin) / half).saturating_sub(1);
        let first = u64::from(u32::from(bin) - shift * half) << shift;
        first + ((1 << shift) - 1) / 2
    }
}

#[cfg(test)]
mod tests;
