//! Random numbers that are the same in every run, and random damage.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
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
        // The same again, elsewhere.
        7 => {
            let copy = bytes[at..at + some].to_vec();
            let to = random.below(bytes.len());
            drop(bytes.splice(to..to, copy));
        }
        // A number of many bytes in place of one of one.
        8 => {
            let long = 1 + random.below(9);
            let mut number = vec![0xff; long];
            number.push(1 + random.byte() % 0x7f);
            drop(bytes.splice(at..at + 1, number));
        }
        _ => bytes.truncate(at),
    }
}
