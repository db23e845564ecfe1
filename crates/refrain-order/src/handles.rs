//! What is known of things by their handles, which are small numbers or addresses.
//!
//! Programs have a few requests at a time, mostly, and their handles come again and again. So a handle
//! tells where to look in a small table, and what is known stands there; only what finds its place
//! taken is in a map.

use refrain_bytes::table;
use refrain_bytes::table::Map;

/// Places in the table, as a power of two.
const PLACES: u32 = 8;

/// Things by their handles.
#[derive(Clone, Debug)]
pub struct Handles<T> {
    /// Empty until the first use.
    near: Vec<Option<(usize, T)>>,
    /// How many of those are taken.
    taken: usize,
    far: Map<usize, T>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { near: Vec::new(), taken: 0, far: Map::default() }
    }
}

#[inline]
fn place(handle: usize) -> usize {
    table::slot::<PLACES>(handle as u64)
}

impl<T> Handles<T> {
    /// Whether nothing is known of any.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0 && self.far.is_empty()
    }

    /// Something has this handle now. What had it is gone.
    #[inline]
    pub fn add(&mut self, handle: usize, known: T) {
        if self.near.is_empty() {
            self.open();
        }
        match self.near.get_mut(place(handle)) {
            Some(place @ None) => {
                *place = Some((handle, known));
                self.taken += 1;
                if !self.far.is_empty() {
                    self.remove_far(handle);
                }
            }
            Some(Some((own, there))) if *own == handle => *there = known,
            _ => self.add_far(handle, known),
        }
    }

    #[cold]
    fn open(&mut self) {
        self.near.resize_with(1 << PLACES, || None);
    }

    #[inline(never)]
    fn add_far(&mut self, handle: usize, known: T) {
        self.far.insert(handle, known);
    }

    #[inline(never)]
    fn remove_far(&mut self, handle: usize) -> Option<T> {
        self.far.remove(&handle)
    }

    /// What is known of a handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        match self.near.get(place(handle)) {
            Some(Some((own, known))) if *own == handle => Some(known),
            _ if self.far.is_empty() => None,
            _ => self.far.get(&handle),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        match self.near.get_mut(place(handle)) {
            Some(Some((own, known))) if *own == handle => Some(known),
            _ if self.far.is_empty() => None,
            _ => self.far.get_mut(&handle),
        }
    }

    /// What has a handle is gone.
    #[inline]
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        match self.near.get_mut(place(handle)) {
            Some(place) if place.as_ref().is_some_and(|(own, _)| *own == handle) => {
                self.taken -= 1;
                place.take().map(|(_, known)| known)
            }
            _ if self.far.is_empty() => None,
            _ => self.remove_far(handle),
        }
    }

    /// All of them, with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let near = self.near.iter().flatten().map(|(handle, known)| (*handle, known));
        near.chain(self.far.iter().map(|(handle, known)| (*handle, known)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// As a plain map does, whether handles are few or many.
        #[test]
        fn things_are_found_by_their_handles(
            most in prop_oneof![Just(8usize), Just(3000)],
            steps in prop::collection::vec((0u8..4, any::<usize>(), any::<u16>()), 0..2000)) {
            let (mut handles, mut plain) = (Handles::default(), BTreeMap::new());
            for (what, handle, known) in steps {
                let handle = 0x2c00_0000 + handle % most;
                match what {
                    0 => prop_assert_eq!(handles.remove(handle), plain.remove(&handle)),
                    1 => {
                        prop_assert_eq!(handles.get(handle), plain.get(&handle));
                        prop_assert_eq!(handles.get_mut(handle), plain.get_mut(&handle));
                    }
                    _ => {
                        handles.add(handle, known);
                        plain.insert(handle, known);
                    }
                }
                prop_assert_eq!(handles.is_empty(), plain.is_empty());
            }
            let all: BTreeMap<usize, u16> = handles.iter().map(|(h, k)| (h, *k)).collect();
            prop_assert_eq!(handles.iter().count(), plain.len());
            prop_assert_eq!(all, plain);
        }
    }
}
