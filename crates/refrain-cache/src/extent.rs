//! Which addresses a reference accesses during an iteration.

/// The addresses of a reference during an iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub low: u64,
    pub high: u64,
    /// One of them, and the bits in which others differ from it, by subtraction.
    base: u64,
    mixed: u64,
}

impl Extent {
    /// No address.
    pub const EMPTY: Self = Self { low: u64::MAX, high: 0, base: 0, mixed: 0 };

    pub fn is_empty(&self) -> bool {
        self.low > self.high
    }

    /// Adds an address.
    #[inline]
    pub fn add(&mut self, address: u64) {
        if self.is_empty() {
            self.base = address;
        }
        self.low = self.low.min(address);
        self.high = self.high.max(address);
        self.mixed |= address.wrapping_sub(self.base);
    }

    /// Adds the addresses of another extent.
    pub fn merge(&mut self, other: &Self) {
        if !other.is_empty() {
            self.add(other.base);
            self.low = self.low.min(other.low);
            self.high = self.high.max(other.high);
            self.mixed |= other.mixed;
        }
    }

    /// Adds what the addresses become when they advance by a stride, many times.
    pub fn advance(&mut self, stride: i64, times: u64) {
        if stride == 0 || self.is_empty() {
            return;
        }
        let by = stride.wrapping_mul(times as i64);
        self.low = self.low.min(self.low.wrapping_add_signed(by));
        self.high = self.high.max(self.high.wrapping_add_signed(by));
        self.mixed |= stride as u64;
    }

    /// How many times all addresses can advance by a stride, each without leaving its line. `offset` is added to
    /// all addresses, `size` is what is accessed at each.
    pub fn within_lines(&self, stride: i64, offset: u64, size: u32, line: u64) -> u64 {
        if stride == 0 || self.is_empty() {
            return u64::MAX;
        }
        // All addresses are equal modulo this power of two.
        let unit = 1 << (self.mixed | line).trailing_zeros();
        let base = self.base.wrapping_add(offset);
        let ends = [base, base.wrapping_add(u64::from(size) - 1)];
        let room = |address: u64| match stride > 0 {
            true => unit - 1 - address % unit,
            false => address % unit,
        };
        ends.map(room).into_iter().min().unwrap_or(0) / stride.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_stay_in_their_lines(
            base in 0u64..10_000,
            stride in 1u64..300, times in 1u64..9,
            outer in -70i64..70,
            size in 1u32..20,
        ) {
            let addresses: Vec<u64> = (0..times).map(|i| 100_000 + base + i * stride).collect();
            let mut extent = Extent::EMPTY;
            addresses.iter().for_each(|address| extent.add(*address));
            let mut swept = Extent::EMPTY;
            swept.add(addresses[0]);
            swept.advance(stride as i64, times - 1);
            prop_assert_eq!((extent.low, extent.high), (swept.low, swept.high));
            for extent in [extent, swept] {
                let room = extent.within_lines(outer, 0, size, 64);
                prop_assert!(outer != 0 || room == u64::MAX);
                for step in 0..=room.min(70) {
                    for &address in &addresses {
                        for end in [address, address + u64::from(size) - 1] {
                            let moved = end.wrapping_add_signed(outer * step as i64);
                            prop_assert_eq!(moved / 64, end / 64);
                        }
                    }
                }
            }
        }
    }
}
