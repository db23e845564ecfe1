//! The record that every order-replay needs, as the paper writes it (Sato et al., §3.1, figure 4):
//! rows of count, flag, with_next, rank and clock.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

pub struct BaseTable {
    /// For each rank its rows, and how many failed polls are not written yet.
    ranks: Vec<(Vec<u8>, u32)>,
}

impl BaseTable {
    pub fn new(ranks: usize) -> Self {
        Self { ranks: vec![(Vec::new(), 0); ranks] }
    }

    pub fn failed(&mut self, rank: usize) {
        self.ranks[rank].1 += 1;
    }

    pub fn matched(&mut self, rank: usize, with_next: bool, source: usize, clock: u64) {
        let failed = std::mem::take(&mut self.ranks[rank].1);
        if failed > 0 {
            self.row(rank, [failed, 0, 0, 0, 0]);
        }
        self.row(rank, [1, 1, with_next.into(), source as u32, clock as u32]);
    }

    fn row(&mut self, rank: usize, row: [u32; 5]) {
        row.iter().for_each(|value| self.ranks[rank].0.extend_from_slice(&value.to_le_bytes()));
    }

    /// Bytes as written.
    pub fn plain(&self) -> u64 {
        self.ranks.iter().map(|(rows, _)| rows.len() as u64).sum()
    }

    /// Bytes after gzip -6, one file for each rank.
    pub fn zipped(&self) -> u64 {
        let zipped = |(rows, _): &(Vec<u8>, u32)| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
            gzip.write_all(rows).and_then(|()| gzip.finish()).map_or(0, |bytes| bytes.len() as u64)
        };
        self.ranks.iter().map(zipped).sum()
    }
}
