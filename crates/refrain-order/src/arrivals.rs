//! A list in arrival order from which any element can be removed in constant time.
//!
//! A doubly linked list in a vector of slots; an element is identified by the number of its slot.

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Slot<T> {
    thing: Option<T>,
    /// The previous and the next slot.
    before: u32,
    after: u32,
}

/// A list in arrival order.
#[derive(Clone, Debug)]
pub struct Arrivals<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    oldest: u32,
    latest: u32,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), oldest: NONE, latest: NONE }
    }
}

impl<T> Arrivals<T> {
    /// Appends an element. Returns its slot.
    #[inline]
    pub fn add(&mut self, thing: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.make_slot());
        let latest = self.latest;
        if let Some(target) = self.slots.get_mut(slot as usize) {
            *target = Slot { thing: Some(thing), before: latest, after: NONE };
        }
        match self.slots.get_mut(latest as usize) {
            Some(before) => before.after = slot,
            None => self.oldest = slot,
        }
        self.latest = slot;
        slot
    }

    #[cold]
    fn make_slot(&mut self) -> u32 {
        self.slots.push(Slot { thing: None, before: NONE, after: NONE });
        self.slots.len() as u32 - 1
    }

    /// Makes two slots neighbours.
    #[inline]
    fn link(&mut self, before: u32, after: u32) {
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => self.oldest = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => self.latest = before,
        }
    }

    /// The element in a slot.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.thing.as_ref()
    }

    /// Removes the element in a slot, if there is one.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        let Some(removed) = self.slots.get_mut(slot as usize) else { return };
        if removed.thing.take().is_some() {
            let (before, after) = (removed.before, removed.after);
            self.link(before, after);
            self.free.push(slot);
        }
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    /// The first element.
    #[inline]
    pub fn oldest(&self) -> Option<&T> {
        self.get(self.oldest)
    }

    /// All elements in order, with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let (slot, link) = (next, self.slots.get(next as usize)?);
            next = link.after;
            Some((slot, link.thing.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_behaves_like_a_vector_under_random_insertions_and_removals(steps in prop::collection::vec((any::<bool>(), 0usize..8), 0..300)) {
            let (mut list, mut plain) = (Arrivals::default(), Vec::new());
            for (n, (adds, at)) in steps.into_iter().enumerate() {
                if adds || plain.is_empty() {
                    let slot = list.add(n);
                    plain.push((slot, n));
                } else {
                    let (slot, thing) = plain.remove(at % plain.len());
                    prop_assert_eq!(list.get(slot), Some(&thing));
                    list.remove(slot);
                    list.remove(slot);
                    prop_assert_eq!(list.get(slot), None);
                }
                let listed: Vec<(u32, usize)> = list.iter().map(|(slot, thing)| (slot, *thing)).collect();
                prop_assert_eq!(&listed, &plain);
                prop_assert_eq!(list.is_empty(), plain.is_empty());
                prop_assert_eq!(list.oldest(), plain.first().map(|(_, thing)| thing));
            }
        }
    }
}
