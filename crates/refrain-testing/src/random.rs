//! Random numbers that are the same in every run, and random damage.

/// A generator of random numbers (SplitMix64). The same seed always gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator that depends on several numbers.
    pub fn of(parts: &[u64]) -> Self {
        parts.iter().fold(Self(0x51ed), |mut random, part| Self(random.next() ^ part))
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// True in `part` of `whole` cases.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.next() % whole < part
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed number.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Damages bytes: a few times, in one of several ways each.
pub fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        damage_once(bytes, random);
    }
}

fn damage_once(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return bytes.push(random.byte());
    }
    let at = random.below(bytes.len());
    let some = 1 + random.below(16.min(bytes.len() - at));
    match random.below(10) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = random.byte(),
        3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        4 => bytes[at] = bytes[at].wrapping_add_signed([1, -1, 2, -2][random.below(4)]),
        5 => drop(bytes.drain(at..at + some)),
        6 => {
            let new: Vec<u8> = (0..some).map(|_| random.byte()).collect();
            drop(bytes.splice(at..at, new));
        }
        // Copies bytes to another position.
        7 => {
            let copy = bytes[at..at + some].to_vec();
            let to = random.below(bytes.len());
            drop(bytes.splice(to..to, copy));
        }
        // Replaces a byte by a number of many bytes.
        8 => {
            let long = 1 + random.below(9);
            let mut number = vec![0xff; long];
            number.push(1 + random.byte() % 0x7f);
            drop(bytes.splice(at..at + 1, number));
        }
        _ => bytes.truncate(at),
    }
}
