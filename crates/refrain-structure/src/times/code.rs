//! Writes and reads the summaries of all keys.
//!
//! The bytes are those of one range coder: the detail of keys ([`Detail`]), the number of call sites that are not among
//! the strings of the structure (a rank may have a site of its own) and their texts, the number of keys, and each key
//! with its summary ([`super::model`]), and a checksum of 8 bits.

use super::Summary;
use super::model::{KeyNumbers, Model};
use crate::merged::Merged;
use refrain_bytes::number::Number;
use refrain_bytes::range::{Coder, Decoder, Encoder};
use refrain_signature::timekey::{Detail, KeyHandle, MOST_OBJECTS, TimeKey};
use std::collections::{BTreeMap, HashMap};

/// What numbers of keys stand for, in the order of the structure.
#[derive(Default)]
struct Tables {
    functions: Vec<u16>,
    sites: Vec<Box<[u8]>>,
    names: Vec<Box<str>>,
}

impl Tables {
    fn of(merged: &Merged) -> Tables {
        let mut tables =
            Tables { functions: merged.functions.keys().copied().collect(), ..Tables::default() };
        let (mut sites, mut names) = (HashMap::new(), HashMap::new());
        for group in &merged.groups {
            let first = group.ranks.first().unwrap_or(0);
            for text in group.strings.iter().filter_map(|text| text.eval(first)) {
                let text: Box<[u8]> = text.into();
                sites.entry(text).or_insert_with_key(|text| tables.sites.push(text.clone()));
            }
            for name in &group.predefined {
                names
                    .entry(name.as_str())
                    .or_insert_with(|| tables.names.push(name.as_str().into()));
            }
        }
        tables
    }

    fn key(&self, numbers: &KeyNumbers) -> Option<TimeKey> {
        let handle = |number: &u32| {
            Some(match *number {
                0 => KeyHandle::Other,
                number if number % 2 == 0 => {
                    KeyHandle::Own(u8::try_from(number / 2 - 1).ok()?.min(MOST_OBJECTS))
                }
                number => KeyHandle::Predefined(self.names.get(number as usize / 2)?.clone()),
            })
        };
        Some(TimeKey {
            function: *self.functions.get(numbers.function as usize)?,
            site: match numbers.site.checked_sub(1) {
                None => None,
                Some(site) => Some(self.sites.get(site as usize)?.clone()),
            },
            handles: numbers.handles.iter().map(handle).collect::<Option<_>>()?,
            size: u8::try_from(numbers.size).ok()?,
        })
    }
}

/// Numbers for keys.
struct Numbers<'t> {
    functions: HashMap<u16, u32>,
    sites: HashMap<&'t [u8], u32>,
    names: HashMap<&'t str, u32>,
}

impl<'t> Numbers<'t> {
    fn of(tables: &'t Tables) -> Numbers<'t> {
        Numbers {
            functions: tables.functions.iter().copied().zip(0..).collect(),
            sites: tables.sites.iter().map(|site| &**site).zip(0..).collect(),
            names: tables.names.iter().map(|name| &**name).zip(0..).collect(),
        }
    }

    fn key(&self, key: &TimeKey) -> Option<KeyNumbers> {
        let handle = |handle: &KeyHandle| match handle {
            KeyHandle::Own(number) => 2 * u32::from(*number) + 2,
            KeyHandle::Predefined(name) => self.names.get(&**name).map_or(0, |name| 2 * name + 1),
            KeyHandle::Other => 0,
        };
        Some(KeyNumbers {
            function: *self.functions.get(&key.function)?,
            site: key.site.as_ref().and_then(|site| self.sites.get(&**site)).map_or(0, |n| n + 1),
            handles: key.handles.iter().map(handle).collect(),
            size: key.size.into(),
        })
    }
}

/// Writes the statistics of a trace.
pub fn write(merged: &Merged, detail: Detail) -> Vec<u8> {
    let times = merged.times.at(detail);
    let mut tables = Tables::of(merged);
    let known = tables.sites.len();
    let more: Vec<Box<[u8]>> = {
        let numbers = Numbers::of(&tables);
        let sites = times.iter().filter_map(|(key, _)| key.site.clone());
        let mut more: Vec<_> = sites.filter(|site| !numbers.sites.contains_key(&**site)).collect();
        more.sort_unstable();
        more.dedup();
        more
    };
    tables.sites.extend(more);
    let numbers = Numbers::of(&tables);
    let rows =
        times.iter().filter_map(|(key, stats)| Some((numbers.key(key)?, Summary::of(stats))));
    let rows: BTreeMap<KeyNumbers, Summary> = rows.collect();
    let mut encoder = Encoder::default();
    code_head(&mut encoder, detail as u64, &mut tables.sites, known, usize::MAX);
    let mut model = Model::default();
    Number::default().code(&mut encoder, rows.len() as u64);
    let mut last = KeyNumbers::default();
    for (key, summary) in rows {
        model.key(&mut encoder, &last, &key);
        model.summary(&mut encoder, &summary);
        last = key;
    }
    encoder.raw(8, model.check());
    encoder.finish()
}

/// Codes detail and more call sites, at most so many bytes of them. Returns the detail.
fn code_head(
    coder: &mut impl Coder,
    detail: u64,
    sites: &mut Vec<Box<[u8]>>,
    known: usize,
    most: usize,
) -> Option<u64> {
    let mut number = Number::default();
    let detail = number.code(coder, detail);
    let more = number.code(coder, (sites.len() - known) as u64);
    let mut left = most as u64;
    for at in 0..usize::try_from(more).ok().filter(|more| *more <= most)? {
        let given = sites.get(known + at).cloned().unwrap_or_default();
        let length = number.code(coder, given.len() as u64);
        left = left.checked_sub(length)?;
        let byte = |i: u64| coder.raw(8, given.get(i as usize).copied().unwrap_or(0).into()) as u8;
        let text: Box<[u8]> = (0..length).map(byte).collect();
        if sites.len() == known + at {
            sites.push(text);
        }
    }
    Some(detail)
}

/// Reads what [`write`] wrote for the same structure: the detail of keys, and the summary of each.
pub fn read(merged: &Merged, bytes: &[u8]) -> Option<(Detail, BTreeMap<TimeKey, Summary>)> {
    let mut decoder = Decoder::new(bytes);
    let mut tables = Tables::of(merged);
    let known = tables.sites.len();
    let detail = code_head(&mut decoder, 0, &mut tables.sites, known, bytes.len())?;
    let detail = *Detail::ALL.get(usize::try_from(detail).ok()?)?;
    let mut model = Model::default();
    let count = Number::default().code(&mut decoder, 0);
    // Each key takes more than a byte.
    let count = usize::try_from(count).ok().filter(|count| *count <= bytes.len())?;
    let (mut last, mut all) = (KeyNumbers::default(), BTreeMap::new());
    for _ in 0..count {
        let key = model.key(&mut decoder, &last, &KeyNumbers::default());
        let summary = model.summary(&mut decoder, &Summary::default());
        all.insert(tables.key(&key)?, summary);
        last = key;
    }
    (decoder.raw(8, 0) == model.check()).then_some((detail, all))
}
