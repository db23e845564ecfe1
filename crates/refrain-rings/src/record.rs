//! Records of the ledger.
//!
//! Each begins with its kind and its length in bytes (both `u32`), and takes a multiple of eight
//! bytes. The forms are those of `include/refrain_rings.h`.

/// A record of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A piece of code that was loaded.
    Module {
        /// Its number: 1, 2, 3 …
        module: u32,
        /// Whether it is the program itself.
        is_main: bool,
        /// The load bias: added to the addresses of its debug information.
        base: u64,
        /// How many bytes it takes in memory.
        size: u64,
        /// Its file.
        path: &'a [u8],
        /// Its build id.
        build_id: &'a [u8],
    },
    /// A block.
    Block {
        /// Its number: blocks and contexts are numbered from 0, in order.
        block: u32,
        /// Its references, 16 bytes each; see [`references`].
        references: &'a [u8],
    },
    /// A node of the tree of stack signatures.
    Context {
        /// Its number.
        block: u32,
        /// The context it was called from; [`NO_CONTEXT`] if there is none.
        parent: u32,
        /// The address of the call.
        call: u64,
        /// The address of the called function.
        function: u64,
    },
    /// Memory of one origin.
    Segment {
        /// 0 module, 1 heap, 2 stack, 3 mapping.
        kind: u32,
        /// The thread that allocated it, or whose stack it is.
        owner: u32,
        /// Its first address.
        base: u64,
        /// How many bytes.
        size: u64,
    },
    /// A thread begins.
    Thread {
        /// Its number.
        thread: u32,
        /// The kernel's number.
        tid: u32,
        /// The offset of its ring in the memory file.
        ring: u64,
        /// The length of its ring.
        ring_bytes: u64,
    },
    /// A thread has ended.
    ThreadEnd {
        /// Its number.
        thread: u32,
    },
}

/// No context.
pub const NO_CONTEXT: u32 = u32::MAX;
/// The bits of a program counter that are an offset; above them is the module.
pub const OFFSET_BITS: u32 = 48;

/// A program counter: module and offset. Module 0 stands for no module; the offset is an address then.
pub fn pc(module: u32, offset: u64) -> u64 {
    u64::from(module) << OFFSET_BITS | (offset & ((1 << OFFSET_BITS) - 1))
}

/// The module and the offset of a program counter.
pub fn split_pc(pc: u64) -> (u32, u64) {
    ((pc >> OFFSET_BITS) as u32, pc & ((1 << OFFSET_BITS) - 1))
}

/// One reference of a block, as the ledger has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The program counter.
    pub pc: u64,
    /// How many bytes.
    pub size: u32,
    /// 0 load, 1 store, 2 atomic.
    pub kind: u32,
}

impl Reference {
    /// Its bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.pc.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_le_bytes());
        bytes[12..].copy_from_slice(&self.kind.to_le_bytes());
        bytes
    }
}

/// The references of a block.
pub fn references(bytes: &[u8]) -> impl ExactSizeIterator<Item = Reference> + '_ {
    bytes.chunks_exact(16).map(|bytes| {
        let mut input = Input(bytes);
        Reference { pc: input.u64(), size: input.u32(), kind: input.u32() }
    })
}

/// The bytes of a record's kind and length.
pub const HEAD: usize = 8;
/// The longest fixed part of a record.
pub const FIXED: usize = 40;

impl Record<'_> {
    /// The record's fixed bytes (with their number), and the bytes that follow them. The record is padded with
    /// zeros to the length in its head.
    pub fn encode(&self) -> ([u8; FIXED], usize, [&[u8]; 2]) {
        let mut out = Output { bytes: [0; FIXED], at: HEAD };
        let mut tails: [&[u8]; 2] = [&[], &[]];
        let kind = match *self {
            Self::Module { module, is_main, base, size, path, build_id } => {
                let lengths = [path.len() as u32, build_id.len() as u32];
                out.u32s(&[module, lengths[0], lengths[1], u32::from(is_main)]);
                out.u64s(&[base, size]);
                tails = [path, build_id];
                1
            }
            Self::Block { block, references } => {
                out.u32s(&[block, (references.len() / 16) as u32]);
                tails[0] = references;
                2
            }
            Self::Context { block, parent, call, function } => {
                out.u32s(&[block, parent]);
                out.u64s(&[call, function]);
                3
            }
            Self::Segment { kind, owner, base, size } => {
                out.u32s(&[kind, owner]);
                out.u64s(&[base, size]);
                4
            }
            Self::Thread { thread, tid, ring, ring_bytes } => {
                out.u32s(&[thread, tid]);
                out.u64s(&[ring, ring_bytes]);
                5
            }
            Self::ThreadEnd { thread } => {
                out.u32s(&[thread, 0]);
                6
            }
        };
        let fixed = out.at;
        let bytes = (fixed + tails[0].len() + tails[1].len()).next_multiple_of(8);
        out.at = 0;
        out.u32s(&[kind, bytes as u32]);
        (out.bytes, fixed, tails)
    }

    /// The length in a record's head.
    pub fn length(head: &[u8]) -> Option<usize> {
        let length = u32::from_le_bytes(*head.get(4..)?.first_chunk()?) as usize;
        (length >= HEAD && length.is_multiple_of(8)).then_some(length)
    }
}

impl<'a> Record<'a> {
    /// Reads a whole record; `None` if its kind is unknown or it is malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let kind = u32::from_le_bytes(*bytes.first_chunk()?);
        let body = bytes.get(HEAD..)?;
        let fixed = *[32, 8, 24, 24, 24, 8].get((kind as usize).checked_sub(1)?)?;
        let (body, tail) = body.split_at_checked(fixed)?;
        let input = &mut Input(body);
        Some(match kind {
            1 => {
                let module = input.u32();
                let (path, id) = (input.u32() as usize, input.u32() as usize);
                let (is_main, base, size) = (input.u32() != 0, input.u64(), input.u64());
                let (path, tail) = tail.split_at_checked(path)?;
                Self::Module { module, is_main, base, size, path, build_id: tail.get(..id)? }
            }
            2 => {
                let (block, count) = (input.u32(), input.u32() as usize);
                Self::Block { block, references: tail.get(..count.checked_mul(16)?)? }
            }
            3 => Self::Context {
                block: input.u32(),
                parent: input.u32(),
                call: input.u64(),
                function: input.u64(),
            },
            4 => Self::Segment {
                kind: input.u32(),
                owner: input.u32(),
                base: input.u64(),
                size: input.u64(),
            },
            5 => Self::Thread {
                thread: input.u32(),
                tid: input.u32(),
                ring: input.u64(),
                ring_bytes: input.u64(),
            },
            _ => Self::ThreadEnd { thread: input.u32() },
        })
    }
}

struct Output {
    bytes: [u8; FIXED],
    at: usize,
}

impl Output {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    fn u32s(&mut self, all: &[u32]) {
        all.iter().for_each(|number| self.put(&number.to_le_bytes()));
    }

    fn u64s(&mut self, all: &[u64]) {
        all.iter().for_each(|number| self.put(&number.to_le_bytes()));
    }
}

/// Reads numbers; zeros past the end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn u32(&mut self) -> u32 {
        let Some((number, rest)) = self.0.split_first_chunk() else { return 0 };
        self.0 = rest;
        u32::from_le_bytes(*number)
    }

    fn u64(&mut self) -> u64 {
        let Some((number, rest)) = self.0.split_first_chunk() else { return 0 };
        self.0 = rest;
        u64::from_le_bytes(*number)
    }
}
