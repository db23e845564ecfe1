//! Any bytes as ranks, numbers over ranks, and texts over ranks. What can be decoded is encoded again and merged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_elastic::{Column, RankList, TextColumn};

/// The limit that readers of traces use.
const MOST: u32 = 1 << 20;
/// Columns over more ranks than this are not evaluated.
const FEW: usize = 2000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(ranks) = RankList::decode(&mut &bytes[..], MOST) {
        let all: Vec<u32> = ranks.iter().take(FEW).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        assert!(all.iter().enumerate().all(|(i, rank)| ranks.position(*rank) == Some(i)));
    }
    if let Ok(column) = Column::decode(&mut &bytes[..], MOST)
        && column.ranks().len() <= FEW
    {
        let (ranks, values) = column.expand();
        assert_eq!(column.values(&ranks), values);
        let mut again = Vec::new();
        column.encode(&mut again);
        assert_eq!(Column::decode(&mut &again[..], MOST).as_ref(), Ok(&column));
        let half = ranks.len() / 2;
        let (a, b) = (
            Column::fit(&ranks[..half], &values[..half]),
            Column::fit(&ranks[half..], &values[half..]),
        );
        assert_eq!(Column::merge(a, b).expand(), (ranks, values));
    }
    if let Ok(texts) = TextColumn::decode(&mut &bytes[..], MOST)
        && texts.ranks().len() <= FEW
    {
        for rank in texts.ranks().iter() {
            texts.eval(rank);
        }
        let mut again = Vec::new();
        texts.encode(&mut again);
        assert_eq!(TextColumn::decode(&mut &again[..], MOST).as_ref(), Ok(&texts));
    }
});
