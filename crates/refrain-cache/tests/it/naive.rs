//! A simulator that is too simple to be wrong: every reference, one by one, in lists and maps of the standard library.

use std::collections::{BTreeMap, HashMap, HashSet};

use refrain_cache::{Counts, Geometry, Policy};
use refrain_memory::{Access, Kind};

/// One cache.
struct Cache {
    /// LRU: the most recently used first. PLRU: by way, `None` if empty.
    sets: Vec<Vec<Option<u64>>>,
    /// PLRU: which half of each pair of halves was used last, by (set, first way, ways).
    halves: HashMap<(usize, usize, usize), bool>,
    ways: usize,
    policy: Policy,
    /// A fully associative cache: when each line was last used, and the line used at each time.
    times: HashMap<u64, u64>,
    lines: BTreeMap<u64, u64>,
    now: u64,
    invalidated: HashSet<u64>,
    seen: HashSet<u64>,
}

impl Cache {
    fn new(sets: usize, ways: usize, policy: Policy) -> Self {
        let set = match policy {
            Policy::Lru => Vec::new(),
            Policy::Plru => vec![None; ways],
        };
        Self {
            sets: vec![set; sets],
            halves: HashMap::new(),
            ways,
            policy,
            times: HashMap::new(),
            lines: BTreeMap::new(),
            now: 0,
            invalidated: HashSet::new(),
            seen: HashSet::new(),
        }
    }

    fn shadow_access(&mut self, line: u64) -> bool {
        self.now += 1;
        let before = self.times.insert(line, self.now);
        before.map(|before| self.lines.remove(&before));
        self.lines.insert(self.now, line);
        if self.lines.len() > self.sets.len() * self.ways {
            let (_, oldest) = self.lines.pop_first().unwrap();
            self.times.remove(&oldest);
        }
        before.is_some()
    }

    fn set_access(&mut self, line: u64) -> bool {
        let number = line as usize % self.sets.len();
        let set = &mut self.sets[number];
        if self.policy == Policy::Lru {
            let found = set.iter().position(|held| *held == Some(line));
            found.map(|at| set.remove(at));
            set.insert(0, Some(line));
            set.truncate(self.ways);
            return found.is_some();
        }
        let found = set.iter().position(|held| *held == Some(line));
        let empty = set.iter().position(|held| held.is_none());
        let way = found.or(empty).unwrap_or_else(|| {
            let (mut first, mut ways) = (0, self.ways);
            while ways > 1 {
                ways /= 2;
                // Goes into the half that was not used last.
                let right_last = self.halves.get(&(number, first, ways)).copied().unwrap_or(true);
                first += if right_last { 0 } else { ways };
            }
            first
        });
        set[way] = Some(line);
        let (mut first, mut ways) = (0, self.ways);
        while ways > 1 {
            ways /= 2;
            let right = way >= first + ways;
            self.halves.insert((number, first, ways), right);
            first += if right { ways } else { 0 };
        }
        found.is_some()
    }

    /// `None` if it is a hit, else the kind of the miss: cold, capacity, conflict, coherence.
    fn access(&mut self, line: u64) -> Option<usize> {
        let is_shadowed = self.shadow_access(line);
        let is_hit = self.set_access(line);
        let is_new = self.seen.insert(line);
        let is_invalidated = self.invalidated.remove(&line);
        match () {
            () if is_hit => None,
            () if is_new => Some(0),
            () if is_invalidated => Some(3),
            () if is_shadowed => Some(2),
            () => Some(1),
        }
    }

    fn invalidate(&mut self, line: u64) {
        if let Some(time) = self.times.remove(&line) {
            self.lines.remove(&time);
        }
        let number = line as usize % self.sets.len();
        let set = &mut self.sets[number];
        let Some(at) = set.iter().position(|held| *held == Some(line)) else { return };
        match self.policy {
            Policy::Lru => drop(set.remove(at)),
            Policy::Plru => set[at] = None,
        }
        self.invalidated.insert(line);
    }
}

/// The naive simulator.
pub struct Naive {
    caches: Vec<Cache>,
    /// By thread and level, which cache it is.
    of: Vec<Vec<usize>>,
    private_levels: usize,
    line: u64,
    /// What was counted, by the reference's program counter.
    pub counts: BTreeMap<u64, Counts>,
    /// Every line accessed, in order, if wanted.
    pub lines: Option<Vec<u64>>,
}

impl Naive {
    /// Empty caches.
    pub fn new(geometry: &Geometry, threads: usize) -> Self {
        let mut caches = Vec::new();
        let mut new = |level| {
            let sets = geometry.sets(level) as usize;
            caches.push(Cache::new(sets, level.ways as usize, geometry.policy));
            caches.len() - 1
        };
        let shared: Vec<usize> =
            geometry.levels.iter().filter(|level| level.shared).map(&mut new).collect();
        let private_levels = geometry.levels.len() - shared.len();
        let of = (0..threads).map(|_| {
            let own = geometry.levels[..private_levels].iter().map(&mut new);
            own.chain(shared.iter().copied()).collect()
        });
        let of = of.collect();
        Self {
            caches,
            of,
            private_levels,
            line: geometry.line,
            counts: BTreeMap::new(),
            lines: None,
        }
    }

    /// A thread's reference.
    pub fn reference(&mut self, thread: usize, access: Access) {
        let (first, last) = (access.address, access.address + u64::from(access.size.max(1)) - 1);
        for line in first / self.line..=last / self.line {
            if let Some(lines) = &mut self.lines {
                lines.push(line);
            }
            if access.kind != Kind::Load {
                for (other, caches) in self.of.iter().enumerate() {
                    for cache in caches[..self.private_levels].iter().filter(|_| other != thread) {
                        self.caches[*cache].invalidate(line);
                    }
                }
            }
            let counts = self.counts.entry(access.pc).or_default();
            counts.accesses += 1;
            for (level, cache) in self.of[thread].iter().enumerate() {
                let Some(kind) = self.caches[*cache].access(line) else { break };
                counts.misses[level][kind] += 1;
            }
        }
    }
}
