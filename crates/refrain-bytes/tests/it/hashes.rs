//! Hashes in files have the values that files have; the hash of tables spreads.

use refrain_bytes::{stable, table};
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// Published test vectors of FNV-1a.
#[test]
fn fnv1a_is_as_published() {
    assert_eq!(stable::fnv1a_32(b""), 0x811c_9dc5);
    assert_eq!(stable::fnv1a_32(b"foobar"), 0xbf9c_f968);
    assert_eq!(stable::fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(stable::fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
}

/// Computed by the functions that these replaced.
#[test]
fn stable_hashes_never_change() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(stable::checksum(b""), CHECKSUM_EMPTY);
    assert_eq!(stable::checksum(&bytes[..13]), CHECKSUM_13);
    assert_eq!(stable::checksum(&bytes), CHECKSUM_256);
    assert_eq!(stable::mix::<17, 31>(5, 7), MIX_THREADS);
    assert_eq!(stable::mix::<21, 30>(5, 7), MIX_COMMUNICATORS);
    assert_eq!(stable::mix::<23, 29>(5, 7), MIX_CONTEXTS);
    assert_eq!(stable::mix::<0, 29>(5, 7), MIX_GRAMMARS);
}

const CHECKSUM_EMPTY: u64 = 0xcbf2_9ce4_8422_2325;
const CHECKSUM_13: u64 = 0x126e_a770_aaea_7a55;
const CHECKSUM_256: u64 = 0xb1ba_a207_8d4c_a996;
const MIX_THREADS: u64 = 0x14c3_4cfb_7a5d_fd65;
const MIX_COMMUNICATORS: u64 = 0x6773_e2a1_95e6_ee13;
const MIX_CONTEXTS: u64 = 0xa342_8e4d_b59d_16d6;
const MIX_GRAMMARS: u64 = 0x3c6e_f373_1de3_63bd;

/// Handles of MPI: small numbers, numbers in steps of four with high bits set, addresses in steps
/// of 16 and of a page. Hash maps index by the low bits and compare the high seven.
#[test]
fn keys_that_occur_are_spread() {
    let kinds: [fn(u64) -> u64; 5] = [
        |n| n,
        |n| 0x9800_0000 + 4 * n,
        |n| 0x7f12_a4c0_1040 + 16 * n,
        |n| 0x5555_0000_0000 + 4096 * n,
        |n| n << 32 | 1,
    ];
    let build = std::hash::BuildHasherDefault::<table::TableHasher>::default();
    for key in kinds {
        let hashes: Vec<u64> = (0..4096).map(|n| build.hash_one(key(n))).collect();
        let distinct = |part: fn(u64) -> u64| {
            hashes.iter().map(|hash| part(*hash)).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(distinct(|hash| hash), 4096);
        // A random function would hit about 2,589 of 4,096.
        assert!(distinct(|hash| hash & 4095) > 2200);
        assert_eq!(distinct(|hash| hash >> 57), 128);
        let slots: BTreeSet<_> = (0..4096).map(|n| table::slot::<12>(key(n))).collect();
        assert!(slots.len() > 1000, "{}", slots.len());
    }
}

#[test]
fn bytes_of_any_length_are_told_apart() {
    let zeros = [0; 64];
    let hashes: BTreeSet<u64> = (0..64).map(|n| table::hash(&zeros[..n])).collect();
    assert_eq!(hashes.len(), 64);
}
