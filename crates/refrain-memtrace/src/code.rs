//! The code of a process: modules, calling contexts and blocks.

use crate::bytes::take_text;
use crate::error::{TraceError, within};
use refrain_bytes::varint::{put, put_bytes, put_signed, take, take_bytes, take_signed, take_u32};
use refrain_memory::{Blocks, Kind, Reference};
use refrain_rings::record::split_pc;
use std::collections::BTreeMap;

/// A loaded program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its file.
    pub path: String,
    /// Its build id.
    pub build_id: Vec<u8>,
    /// Whether it is the program itself.
    pub is_main: bool,
}

/// A node of the tree of stack signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The context of the caller.
    pub parent: Option<u32>,
    /// The return address of the call: module and offset.
    pub call: u64,
    /// A program counter in the function that was called.
    pub function: u64,
}

/// The calls that lead to a context: the return address and the called function of each.
type Path = Vec<(u64, u64)>;
type ReferenceKey = (u64, Kind, u32);
type BlockKey = (Vec<ReferenceKey>, Path, u32);
/// The longest call path; a damaged table may have cycles.
const MOST_CALLS: usize = 1 << 12;

/// The code of a process: what block numbers mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Modules by number, from 1.
    pub modules: BTreeMap<u32, Module>,
    /// Contexts by block number.
    pub contexts: BTreeMap<u32, Context>,
    /// Blocks; contexts are blocks without references.
    pub blocks: Blocks,
}

impl Code {
    /// The module and the offset of a program counter.
    pub fn locate(&self, pc: u64) -> (Option<&Module>, u64) {
        let (module, offset) = split_pc(pc);
        (self.modules.get(&module), offset)
    }

    /// The same code with block numbers that depend on the code alone, not on the order in which threads met
    /// blocks; and the new number of each block.
    pub fn canonical(&self) -> (Self, Vec<u32>) {
        let (code, mut numbers) = Self::union(&[self]);
        (code, numbers.pop().unwrap_or_default())
    }

    /// The code of several processes that have the same modules, and the numbers that their blocks
    /// have in it: first contexts, sorted by their call paths, then blocks, sorted by their references.
    pub fn union(codes: &[&Self]) -> (Self, Vec<Vec<u32>>) {
        let mut all: BTreeMap<BlockKey, (Vec<Reference>, Option<Context>)> = BTreeMap::new();
        let keys: Vec<Vec<BlockKey>> = codes.iter().map(|code| code.keys()).collect();
        for (code, keys) in codes.iter().zip(&keys) {
            for (block, key) in (0u32..).zip(keys) {
                let references = code.blocks.get(block).unwrap_or_default().to_vec();
                all.insert(key.clone(), (references, code.contexts.get(&block).copied()));
            }
        }
        let numbers: BTreeMap<&BlockKey, u32> = all.keys().zip(0u32..).collect();
        let mut union = Self::default();
        for (number, (key, (references, context))) in (0u32..).zip(&all) {
            union.blocks.add(references.clone());
            if let Some(context) = context {
                let (_, path, _) = key;
                let parent = path.split_last().map(|(_, path)| (Vec::new(), path.to_vec(), 0));
                let parent = parent.and_then(|key| numbers.get(&key).copied());
                union.contexts.insert(number, Context { parent, ..*context });
            }
        }
        for code in codes {
            union.modules.extend(code.modules.clone());
        }
        let number = |key: &BlockKey| numbers.get(key).copied().unwrap_or(0);
        let numbers = keys.iter().map(|keys| keys.iter().map(number).collect()).collect();
        (union, numbers)
    }

    /// The code with only some of its blocks, and the new number of each block.
    pub fn only(&self, is_kept: impl Fn(u32) -> bool) -> (Self, Vec<Option<u32>>) {
        let mut only = Self { modules: self.modules.clone(), ..Self::default() };
        let mut numbers = Vec::new();
        for block in 0..self.blocks.len() as u32 {
            let references = self.blocks.get(block).unwrap_or_default().to_vec();
            numbers.push(is_kept(block).then(|| only.blocks.add(references)).flatten());
        }
        for (block, context) in &self.contexts {
            if let Some(number) = numbers.get(*block as usize).copied().flatten() {
                let parent = context.parent.and_then(|parent| *numbers.get(parent as usize)?);
                only.contexts.insert(number, Context { parent, ..*context });
            }
        }
        (only, numbers)
    }

    /// The key of each block: its references, for a context the calls that lead to it, and how many equal
    /// blocks precede it.
    fn keys(&self) -> Vec<BlockKey> {
        let mut met: BTreeMap<(Vec<ReferenceKey>, Path), u32> = BTreeMap::new();
        let mut key = |block: u32| {
            let references = self.blocks.get(block).unwrap_or_default();
            let references: Vec<_> = references.iter().map(|r| (r.pc, r.kind, r.size)).collect();
            let path = self.path(block);
            let before = met.entry((references.clone(), path.clone())).or_insert(0);
            *before += 1;
            (references, path, *before - 1)
        };
        (0..self.blocks.len() as u32).map(&mut key).collect()
    }

    /// The calls that lead to a context; none for other blocks.
    fn path(&self, block: u32) -> Path {
        let (mut path, mut at) = (Path::new(), Some(block));
        while let Some((number, context)) = at.and_then(|at| Some((at, self.contexts.get(&at)?))) {
            path.push((context.call, context.function));
            // Parents precede children; damaged tables may have cycles.
            at = context.parent.filter(|parent| *parent != number && path.len() < MOST_CALLS);
        }
        path.reverse();
        path
    }

    /// Appends the code; of modules, only those that blocks or contexts refer to.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let used = self.used_modules();
        put(out, used.len() as u64);
        for (number, module) in used {
            put(out, u64::from(number));
            put_bytes(out, module.path.as_bytes());
            put_bytes(out, &module.build_id);
            put(out, u64::from(module.is_main));
        }
        put(out, self.contexts.len() as u64);
        let (mut last, mut call, mut function) = (0, 0u64, 0u64);
        for (&block, context) in &self.contexts {
            put(out, u64::from(block - last));
            put(out, context.parent.map_or(0, |parent| u64::from(parent) + 1));
            put_signed(out, context.call.wrapping_sub(call) as i64);
            put_signed(out, context.function.wrapping_sub(function) as i64);
            (last, call, function) = (block, context.call, context.function);
        }
        self.blocks.encode(out);
    }

    fn used_modules(&self) -> BTreeMap<u32, &Module> {
        let blocks = (0..self.blocks.len() as u32).filter_map(|block| self.blocks.get(block));
        let pcs = blocks.flatten().map(|reference| reference.pc);
        let contexts = self.contexts.values().flat_map(|context| [context.call, context.function]);
        let numbers = pcs.chain(contexts).map(|pc| split_pc(pc).0);
        let main = self.modules.iter().filter(|(_, module)| module.is_main).map(|(n, _)| *n);
        numbers.chain(main).filter_map(|n| Some((n, self.modules.get(&n)?))).collect()
    }

    /// Decodes code.
    pub fn decode(input: &mut &[u8]) -> Result<Self, TraceError> {
        let mut code = Self::default();
        for _ in 0..take(input)? {
            let number = take_u32(input, "module")?;
            let path = take_text(input)?;
            let build_id = take_bytes(input)?.to_vec();
            let is_main = take(input)? != 0;
            code.modules.insert(number, Module { path, build_id, is_main });
        }
        let (mut last, mut call, mut function) = (0u32, 0u64, 0u64);
        for _ in 0..take(input)? {
            last = last.checked_add(take_u32(input, "context")?).ok_or(TraceError::Short)?;
            let parent = take_u32(input, "parent")?.checked_sub(1);
            call = call.wrapping_add(take_signed(input)? as u64);
            function = function.wrapping_add(take_signed(input)? as u64);
            code.contexts.insert(last, Context { parent, call, function });
        }
        code.blocks = within("code", Blocks::decode(input))?;
        Ok(code)
    }
}
