//! Which table each message of a chunk belongs to.
//!
//! Programs receive at several call sites, and each has its own table and order (Sato et al., §4.4). So a replay has to
//! know which table an arriving message belongs to, long before the program asks for it. Usually that follows from
//! communicator and tag; exceptions are listed message by message.

use std::collections::BTreeMap;

use refrain_bytes::table::Map;

use crate::clock::epoch::Numbered;

/// A table's number; `None` for messages whose receive had no choice, which are in no table.
pub type Route = Option<u32>;

/// Communicator and tag.
pub type Topic = (u32, i32);

/// The routes of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The route of all other messages.
    pub usual: Route,
    /// Routes of topics that differ from it.
    pub topics: Vec<(Topic, Route)>,
    /// Routes of single messages that differ from their topic's.
    pub single: Vec<(Numbered, Route)>,
}

/// A message with its topic and route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Sender and number.
    pub message: Numbered,
    /// Communicator and tag.
    pub topic: Topic,
    /// Its table.
    pub route: Route,
}

/// The most frequent route.
fn most(counts: &BTreeMap<Route, u64>) -> Route {
    counts.iter().max_by_key(|(_, count)| **count).and_then(|(route, _)| *route)
}

impl Routes {
    /// Computes the routes of a chunk's messages.
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

/// [`Routes`] as a lookup table.
#[derive(Clone, Debug, Default)]
pub struct RouteMap {
    usual: Route,
    topics: Map<Topic, Route>,
    single: Map<Numbered, Route>,
}

impl RouteMap {
    /// From a chunk's routes.
    pub fn of(routes: &Routes) -> Self {
        Self {
            usual: routes.usual,
            topics: routes.topics.iter().copied().collect(),
            single: routes.single.iter().copied().collect(),
        }
    }

    /// The route of a message.
    pub fn route(&self, message: Numbered, topic: Topic) -> Route {
        let single = self.single.get(&message).or_else(|| self.topics.get(&topic));
        single.copied().unwrap_or(self.usual)
    }
}
