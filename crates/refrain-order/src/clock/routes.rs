//! Which table each message of a chunk belongs to.
//!
//! Programs receive in several places, and every place has a table with an order of its own (Sato
//! et al., §4.4). So a replay has to know of every message that comes which table it will be in,
//! long before the program asks for it. Mostly that follows from communicator and tag; single
//! messages for which it does not are listed.

use std::collections::BTreeMap;

use refrain_bytes::table::Map;

use crate::clock::epoch::Numbered;

/// A table's number; nothing for messages that are in no table, as there was no choice.
pub type Route = Option<u32>;

/// Communicator and tag.
pub type Topic = (u32, i32);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Where messages go for which nothing else is said.
    pub usual: Route,
    /// Where those of some communicator and tag go.
    pub topics: Vec<(Topic, Route)>,
    /// Where single messages go.
    pub single: Vec<(Numbered, Route)>,
}

/// A message with its topic and where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Sender and number.
    pub message: Numbered,
    /// Communicator and tag.
    pub topic: Topic,
    /// Where it went.
    pub route: Route,
}

/// What came most often.
fn most(counts: &BTreeMap<Route, u64>) -> Route {
    counts.iter().max_by_key(|(_, count)| **count).and_then(|(route, _)| *route)
}

impl Routes {
    /// Of messages, with what they are about and where they went.
    pub fn of(messages: &[Routed]) -> Self {
        let mut all = BTreeMap::new();
        let mut by_topic: BTreeMap<Topic, BTreeMap<Route, u64>> = BTreeMap::new();
        for Routed { topic, route, .. } in messages {
            *all.entry(*route).or_default() += 1;
            *by_topic.entry(*topic).or_default().entry(*route).or_default() += 1;
        }
        let usual = most(&all);
        let topics = by_topic.iter().map(|(topic, counts)| (*topic, most(counts)));
        let topics: Vec<(Topic, Route)> = topics.filter(|(_, route)| *route != usual).collect();
        let mut routes = Self { usual, topics, single: Vec::new() };
        let map = RouteMap::of(&routes);
        let apart = messages.iter().filter(|one| map.route(one.message, one.topic) != one.route);
        routes.single = apart.map(|one| (one.message, one.route)).collect();
        routes.single.sort_unstable();
        routes
    }
}

/// [`Routes`] to be asked.
#[derive(Clone, Debug, Default)]
pub struct RouteMap {
    usual: Route,
    topics: Map<Topic, Route>,
    single: Map<Numbered, Route>,
}

impl RouteMap {
    /// Of a chunk's routes.
    pub fn of(routes: &Routes) -> Self {
        Self {
            usual: routes.usual,
            topics: routes.topics.iter().copied().collect(),
            single: routes.single.iter().copied().collect(),
        }
    }

    /// Where a message goes.
    pub fn route(&self, message: Numbered, topic: Topic) -> Route {
        let single = self.single.get(&message).or_else(|| self.topics.get(&topic));
        single.copied().unwrap_or(self.usual)
    }
}
