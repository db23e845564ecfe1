//! Writes short loops over one call out: without call sites, several calls of a function in a row look like a loop.

use refrain_reader::refrain_nest::{Grouped, Nest, Places, Seq};

/// Loops of at most so many iterations are written out.
const MOST_TRIPS: u64 = 4;
/// Longer value vectors are not taken apart.
const MOST_VISITS: u64 = 1 << 22;

/// The nest without loops over a single call that have the same few iterations everywhere, and other values in each.
pub(super) fn unrolled(nest: Vec<Grouped>) -> Vec<Grouped> {
    let mut all = Vec::with_capacity(nest.len());
    for node in nest {
        match node {
            Nest::Loop { count, body } => match parts(&count, &body) {
                Some(parts) => all.extend(parts),
                None => all.push(Nest::Loop { count, body: unrolled(body) }),
            },
            node => all.push(node),
        }
    }
    all
}

fn parts(count: &[(usize, Seq<u64>)], body: &[Grouped]) -> Option<Vec<Grouped>> {
    let [Nest::Leaf(places)] = body else { return None };
    let trips = count.first()?.1.constant().filter(|trips| (2..=MOST_TRIPS).contains(trips))?;
    if !count.iter().all(|(_, other)| other.constant() == Some(trips)) {
        return None;
    }
    if places.groups.iter().all(|(_, values)| values.constant().is_some()) {
        return None;
    }
    let mut parts: Vec<Places> =
        (0..trips).map(|_| Places { skeleton: places.skeleton, groups: Vec::new() }).collect();
    for (group, values) in &places.groups {
        let (pattern, times) = match values.len() <= MOST_VISITS {
            true => (values.iter().collect::<Vec<u32>>(), 1),
            false => values.pattern(MOST_VISITS as usize)?,
        };
        if !(pattern.len() as u64).is_multiple_of(trips) {
            return None;
        }
        for (at, part) in parts.iter_mut().enumerate() {
            let every = pattern.iter().skip(at).step_by(trips as usize).copied();
            part.groups.push((*group, every.collect::<Seq<u32>>().repeat(times)));
        }
    }
    Some(parts.into_iter().map(Nest::Leaf).collect())
}
