//! A part: the log of one thread, and facts about its process.
//!
//! A part is a file in `NAME.refrain.parts/`, one for each thread that calls MPI:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | [`HEADER_BYTES`] | a [`PartHeader`] |
//! | [`HEADER_BYTES`] | [`WINDOW_BYTES`] | the window: `u64` position in the log, then records |
//! | [`BODY`] | `appended` | records |
//!
//! Positions in a log are bytes from its beginning. The body holds `appended` bytes from position
//! `base` on. The window holds the records from the position in its first word on, up to its first
//! record with tag End. Records are appended while the window fills, so its first records may be in
//! the body, too: the log continues in the window at the position where the body ends.
//!
//! The log before `base` has been encoded into the process's *state* ([`crate::state`]), which says
//! up to which position it includes the log of each thread.
//!
//! Records are described in [`crate::record`]. Numbers are little-endian; a text field ends at its
//! first NUL.

use std::mem::{offset_of, size_of};

/// The first eight bytes of every part.
pub const MAGIC: [u8; 8] = *b"REFRPART";

/// The version of the layout that is described here and in [`crate::record`].
pub const VERSION: u32 = 4;

/// The length of the header.
pub const HEADER_BYTES: usize = 4096;

/// The length of the window.
pub const WINDOW_BYTES: usize = 256 << 10;

/// Bytes of the window's first word.
pub const WINDOW_HEAD: usize = 8;

/// The offset of the body in the file.
pub const BODY: usize = HEADER_BYTES + WINDOW_BYTES;

/// The extension of a part's file name.
pub const EXTENSION: &str = "part";

/// Facts about the process: bits of [`PartHeader::flags`].
pub mod flags {
    /// `MPI_Init` or `MPI_Init_thread` has returned: rank and size are known.
    pub const INITIALIZED: u32 = 1;
    /// `MPI_Finalize` has returned.
    pub const FINALIZED: u32 = 2;
    /// The program called `MPI_Abort`.
    pub const ABORTED: u32 = 4;
    /// The log stopped before the program did; see [`super::PartHeader::stop_errno`].
    pub const STOPPED: u32 = 8;
    /// Ticks are nanoseconds of the system's clock instead of a time-stamp counter.
    pub const NANOSECONDS: u32 = 16;
    /// The thread that owned the log has ended.
    pub const THREAD_ENDED: u32 = 32;
    /// All ranks have merged their traces in `MPI_Finalize`.
    pub const MERGED: u32 = 64;
    /// Recording is switched off by the program.
    pub const PAUSED: u32 = 128;
    /// The program has switched recording off at least once.
    pub const WAS_PAUSED: u32 = 256;
}

/// The first page of a part.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PartHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Code of the ABI family, [`refrain_mpi::abi::Family`].
    pub family: u32,
    /// Rank in `MPI_COMM_WORLD`, or what the launcher said, or -1.
    pub rank: i32,
    /// Size of `MPI_COMM_WORLD`, or -1.
    pub size: i32,
    /// Process number.
    pub pid: i32,
    /// The thread's number within the process, in order of first MPI call, from 0.
    pub thread: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// The error code given to `MPI_Abort`.
    pub abort_code: i32,
    /// The `errno` with which the log stopped.
    pub stop_errno: i32,
    /// Calls of the program that were forwarded but not recorded.
    pub unrecorded: u32,
    /// Calls for which this MPI has no function.
    pub missing: u32,
    /// How often the agent has panicked in this process: each time a defect, which it survived.
    pub panics: u32,
    /// Identifies the process: the time of its first MPI call, in nanoseconds since 1970.
    pub process: u64,
    /// Ticks and nanoseconds since 1970 when the log began.
    pub first_ticks: u64,
    /// See `first_ticks`.
    pub first_nanos: u64,
    /// Ticks and nanoseconds at the latest known moment.
    pub last_ticks: u64,
    /// See `last_ticks`.
    pub last_nanos: u64,
    /// Bytes of the body.
    pub appended: u64,
    /// The position of the body's first byte in the log.
    pub base: u64,
    /// Comparisons with the clock of its parent rank, after Init and before Finalize.
    pub sync: [Sync; 2],
    /// The machine's name.
    pub host: [u8; 64],
    /// The program's file.
    pub program: [u8; 1024],
    /// What `MPI_Get_library_version` says.
    pub library: [u8; 2048],
}

/// The name of a file in the folder of parts. It exists if a rank runs without the agent: the other
/// ranks must not wait for it.
pub const UNSEEN: &str = "unseen";

/// One moment on two clocks: the rank's, and its parent's. The parent is the rank with the lowest
/// set bit cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sync {
    /// Ticks of the rank; 0 if nothing is known.
    pub ticks: u64,
    /// Ticks of its parent.
    pub parent_ticks: u64,
    /// Possible error, in ticks of the rank.
    pub uncertainty: u64,
}

const _: () = assert!(size_of::<PartHeader>() <= HEADER_BYTES);

macro_rules! number {
    ($page:ident, $type:ty, $field:ident) => {{
        let at = offset_of!(PartHeader, $field);
        let mut bytes = [0; size_of::<$type>()];
        bytes.copy_from_slice(&$page[at..at + size_of::<$type>()]);
        <$type>::from_le_bytes(bytes)
    }};
}

impl PartHeader {
    /// A header with magic and version only.
    pub fn empty() -> PartHeader {
        PartHeader {
            magic: MAGIC,
            version: VERSION,
            family: 0,
            rank: -1,
            size: -1,
            pid: 0,
            thread: 0,
            flags: 0,
            abort_code: 0,
            stop_errno: 0,
            unrecorded: 0,
            missing: 0,
            panics: 0,
            process: 0,
            first_ticks: 0,
            first_nanos: 0,
            last_ticks: 0,
            last_nanos: 0,
            appended: 0,
            base: 0,
            sync: [Sync::default(); 2],
            host: [0; 64],
            program: [0; 1024],
            library: [0; 2048],
        }
    }

    /// Reads the page; the error says what is wrong.
    #[expect(
        clippy::indexing_slicing,
        reason = "the page is as long as a header, of which these are fields"
    )]
    pub fn read(page: &[u8]) -> Result<PartHeader, String> {
        if page.len() < HEADER_BYTES {
            return Err(format!("{} bytes, shorter than a part's header", page.len()));
        }
        if page.first_chunk() != Some(&MAGIC) {
            return Err("not a part: wrong magic".into());
        }
        let version = number!(page, u32, version);
        if version != VERSION {
            return Err(format!("version {version}; this Refrain reads version {VERSION}"));
        }
        let mut header = PartHeader {
            version,
            family: number!(page, u32, family),
            rank: number!(page, i32, rank),
            size: number!(page, i32, size),
            pid: number!(page, i32, pid),
            thread: number!(page, u32, thread),
            flags: number!(page, u32, flags),
            abort_code: number!(page, i32, abort_code),
            stop_errno: number!(page, i32, stop_errno),
            unrecorded: number!(page, u32, unrecorded),
            missing: number!(page, u32, missing),
            panics: number!(page, u32, panics),
            process: number!(page, u64, process),
            first_ticks: number!(page, u64, first_ticks),
            first_nanos: number!(page, u64, first_nanos),
            last_ticks: number!(page, u64, last_ticks),
            last_nanos: number!(page, u64, last_nanos),
            appended: number!(page, u64, appended),
            base: number!(page, u64, base),
            ..PartHeader::empty()
        };
        for (i, sync) in header.sync.iter_mut().enumerate() {
            let at = offset_of!(PartHeader, sync) + i * size_of::<Sync>();
            let number = |field: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&page[at + field..at + field + 8]);
                u64::from_le_bytes(bytes)
            };
            sync.ticks = number(offset_of!(Sync, ticks));
            sync.parent_ticks = number(offset_of!(Sync, parent_ticks));
            sync.uncertainty = number(offset_of!(Sync, uncertainty));
        }
        let copy = |to: &mut [u8], at: usize| to.copy_from_slice(&page[at..at + to.len()]);
        copy(&mut header.host, offset_of!(PartHeader, host));
        copy(&mut header.program, offset_of!(PartHeader, program));
        copy(&mut header.library, offset_of!(PartHeader, library));
        Ok(header)
    }

    /// Whether that bit of [`flags`] is set.
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// A text field up to its first NUL.
pub fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end).unwrap_or_default()).into_owned()
}

/// Stores text in a field, truncated to fit, with a closing NUL.
pub fn set_text(field: &mut [u8], text: &[u8]) {
    let room = field.len().saturating_sub(1);
    let text = text.iter().copied().take_while(|byte| *byte != 0).take(room);
    for (to, from) in field.iter_mut().zip(text.chain(std::iter::repeat(0))) {
        *to = from;
    }
}
