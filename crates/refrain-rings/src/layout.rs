//! The layout of the shared memory.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// The first word of the control page and of a hello: `REFRINGS`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"REFRINGS");
/// The version of the layout.
pub const VERSION: u32 = 1;
/// The bytes of the control page.
pub const CONTROL_BYTES: usize = 4096;
/// The usual size of the ledger.
pub const LEDGER_BYTES: usize = 1 << 20;
/// The smallest and the largest size of a ledger.
pub const LEDGER_RANGE: core::ops::RangeInclusive<usize> = (1 << 16)..=(1 << 30);
/// The bytes of a ring before its words.
pub const RING_HEAD_BYTES: usize = 4096;
/// The number of parts that may be published and not consumed.
pub const PARTS: usize = 64;
/// The usual number of words of a chunk.
pub const CHUNK_WORDS: usize = 4096;
/// The usual number of chunks.
pub const CHUNKS: usize = 8;
/// The maximum number of chunks of a ring.
pub const MAX_CHUNKS: usize = 64;
/// The usual size of a ring.
pub const RING_BYTES: usize = RING_HEAD_BYTES + 8 * CHUNKS * CHUNK_WORDS;

/// The compressor has not started yet.
pub const STARTING: u32 = 0;
/// The compressor is running.
pub const RUNNING: u32 = 1;
/// Everything is written; the program may end.
pub const DONE: u32 = 2;
/// The compressor has died.
pub const GONE: u32 = 3;

/// The front end is DynamoRIO's client.
pub const DYNAMORIO: u32 = 1;
/// The front end is the runtime of recompiled code.
pub const COMPILED: u32 = 2;

/// The control page.
#[repr(C)]
pub struct Control {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The program's process number, as it sees itself.
    pub pid: AtomicU32,
    /// [`DYNAMORIO`] or [`COMPILED`].
    pub front_end: AtomicU32,
    /// The size of the ledger, which follows this page.
    pub ledger_bytes: AtomicU32,
    reserved0: [u8; 40],
    /// Bytes ever put into the ledger.
    pub ledger_written: AtomicU64,
    /// Not 0 when the program has ended.
    pub ended: AtomicU32,
    /// Changes when a sleeping compressor is woken.
    pub doorbell: AtomicU32,
    /// Not 0 while the process calls exec; 0 again if exec fails.
    pub replaced: AtomicU32,
    /// Distinct basic blocks of recorded code that ran; 0 if they are not counted.
    pub recorded_blocks: AtomicU32,
    /// Distinct basic blocks of other code that ran.
    pub skipped_blocks: AtomicU32,
    reserved1: [u8; 36],
    /// Bytes ever taken out of the ledger.
    pub ledger_read: AtomicU64,
    /// The low half of [`Control::ledger_read`], to wait for.
    pub ledger_room: AtomicU32,
    /// Not 0 while the compressor sleeps.
    pub compressor_sleeps: AtomicU32,
    /// The compressor's process number.
    pub compressor_pid: AtomicU32,
    /// [`STARTING`] to [`GONE`].
    pub state: AtomicU32,
    reserved2: [u8; 40],
    /// Not 0 while the program waits for room in the ledger.
    pub ledger_waits: AtomicU32,
    reserved3: [u8; 60],
}

/// A published stretch of a ring.
#[repr(C)]
pub struct Part {
    /// The index of its first word.
    pub start: AtomicU64,
    /// The number of words; a part consists of complete records.
    pub words: AtomicU64,
    /// The length of the ledger at publication.
    pub ledger: AtomicU64,
    reserved: AtomicU64,
}

/// The beginning of a ring; its words follow at [`RING_HEAD_BYTES`].
#[repr(C)]
pub struct RingHead {
    /// Where the next record goes: an address in the program's memory, as are the next three.
    pub at: AtomicU64,
    /// The end of the current chunk.
    pub end: AtomicU64,
    /// The first word that is not published.
    pub first: AtomicU64,
    /// The ring's first word.
    pub words_at: AtomicU64,
    /// Parts ever published.
    pub published: AtomicU64,
    /// Not 0 while the thread waits.
    pub waits: AtomicU32,
    reserved0: u32,
    reserved1: [u64; 2],
    /// Parts ever consumed.
    pub consumed: AtomicU64,
    /// The low half of [`RingHead::consumed`], to wait for.
    pub room: AtomicU32,
    reserved2: [u8; 52],
    /// The thread.
    pub thread: AtomicU32,
    /// The words of a chunk.
    pub chunk_words: AtomicU32,
    /// How many chunks.
    pub chunks: AtomicU32,
    reserved3: [u8; 52],
    /// Part `n` is at `n % PARTS`.
    pub parts: [Part; PARTS],
}

/// The message that is sent over the socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// The System V segment that is the shared memory; unused if a memfd is sent along.
    pub segment: i32,
}

impl Hello {
    /// A hello of this version.
    pub fn new(segment: i32) -> Self {
        Self { magic: MAGIC, version: VERSION, segment }
    }
}

const _: () = {
    assert!(offset_of!(Control, ledger_written) == 64);
    assert!(offset_of!(Control, ledger_read) == 128);
    assert!(offset_of!(Control, ledger_waits) == 192);
    assert!(size_of::<Control>() == 256);
    assert!(offset_of!(RingHead, consumed) == 64);
    assert!(offset_of!(RingHead, thread) == 128);
    assert!(offset_of!(RingHead, parts) == 192);
    assert!(size_of::<Part>() == 32);
    assert!(size_of::<RingHead>() <= RING_HEAD_BYTES);
    assert!(size_of::<Hello>() == 16);
};
