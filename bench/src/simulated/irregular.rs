//! The irregular programs of `bench/programs`, simulated with few steps.

use super::{DOUBLE, SUM, Task, WORLD, message, received, scatter, words};
use refrain_reader::event::Value;

/// Whether two ranks are neighbours: about six of a rank are.
fn are_near(what: u64, a: i64, b: i64, size: i64) -> bool {
    a != b && (pair(what, a, b) % size as u64) < 6
}

pub(super) fn pair(what: u64, a: i64, b: i64) -> u64 {
    scatter(scatter(what + 1, a.min(b) as u64), a.max(b) as u64)
}

/// The neighbours of a rank. Only some distances are tried, so that thousands of ranks take no time.
pub(super) fn neighbours(what: u64, rank: i64, size: i64) -> Vec<i64> {
    let distances = (1..size).filter(|d| *d < 8 || (*d as u64).is_power_of_two() || (size - d) < 8);
    let mut all: Vec<i64> = distances.map(|d| (rank + d) % size).collect();
    all.sort_unstable();
    all.retain(|other| are_near(what, rank, *other, size.min(16)));
    all
}

/// Steps with a random number of iterations (`pop random`).
pub fn solver(task: &mut Task) {
    let (left, right) = ((task.rank + task.size - 1) % task.size, (task.rank + 1) % task.size);
    for step in 0..40 {
        for _ in 0..1 + scatter(step, 9) % 16 {
            task.receive(0, left, 1);
            task.send(1, right, 1);
            task.allreduce();
        }
        let (buffer, one, root) = (task.buffer(2), Value::Int(1), Value::Int(0));
        task.log.call("MPI_Bcast", &[buffer, one, DOUBLE, root, WORLD], &[]);
    }
}

/// Neighbours and sizes of messages that change every ten steps (`amr`).
pub fn refinement(task: &mut Task) {
    for mesh in 0..6 {
        let (from, to) = (task.buffer(100), task.buffer(101));
        task.log.call("MPI_Allreduce", &[from, to, Value::Int(4), DOUBLE, SUM, WORLD], &[]);
        let (rank, all) = (task.rank, neighbours(mesh, task.rank, task.size));
        let count = |other: i64| 1 + (pair(mesh + 7, rank, other) % 1024) as i64;
        for _ in 0..10 {
            task.exchange_of(&all, |_| (5, 5), count);
            task.allreduce();
        }
    }
}

/// Levels with neighbours of their own, in a set-up whose sizes never repeat and in cycles (`multigrid`).
pub fn multigrid(task: &mut Task) {
    let rank = task.rank;
    let levels: Vec<Vec<i64>> = (0..4).map(|level| neighbours(level, rank, task.size)).collect();
    let visit = |task: &mut Task, level: usize, step: u64, tag: i64| {
        let count =
            |other: i64| 1 + (pair(level as u64 + step * 64, rank, other) % (4096 >> level)) as i64;
        task.exchange_of(&levels[level], |_| (tag, tag), count);
    };
    for level in 0..4 {
        (1..=8).for_each(|step| visit(task, level, step, 10 + level as i64));
    }
    for _ in 0..3 {
        (0..4).for_each(|level| visit(task, level, 0, 100 + level as i64));
        (0..3).rev().for_each(|level| visit(task, level, 0, 200 + level as i64));
        task.allreduce();
    }
}

/// Angles: receives from the ranks before, sends to those behind, with sizes by angle (`sweep`).
pub fn sweep(task: &mut Task) {
    let (rank, near) = (task.rank, neighbours(0, task.rank, task.size));
    for _ in 0..2 {
        for angle in 0..16u64 {
            let is_before = |a: i64, b: i64| scatter(angle, a as u64) < scatter(angle, b as u64);
            let count = |other: i64| 1 + (pair(angle + 3, rank, other) % 512) as i64;
            let before: Vec<i64> =
                near.iter().copied().filter(|other| is_before(*other, rank)).collect();
            let requests: Vec<u64> = (0..before.len() as u64).map(|n| 0x9800_0000 + n).collect();
            for (n, other) in before.iter().enumerate() {
                let envelope = task.envelope_of(n, count(*other), *other, angle as i64);
                task.log.call("MPI_Irecv", &envelope, &[Value::Word(requests[n])]);
            }
            if !before.is_empty() {
                let statuses = before.iter().map(|other| received(*other, angle as i64));
                let statuses = Value::List(statuses.collect());
                let nulls = words(requests.iter().map(|_| super::NULL_REQUEST));
                let inputs = [Value::Int(requests.len() as i64), words(requests)];
                task.log.call("MPI_Waitall", &inputs, &[nulls, statuses]);
            }
            for other in near.iter().filter(|other| is_before(rank, **other)) {
                let envelope = task.envelope_of(40, count(*other), *other, angle as i64);
                task.log.call("MPI_Send", &envelope, &[]);
            }
        }
        task.allreduce();
    }
}

/// Even and odd ranks in loops with other trip counts (`figure4`).
pub fn figure4(task: &mut Task) {
    let (even, other) = (task.rank % 2 == 0, task.rank ^ 1);
    task.repeat(50, |task| {
        let requests = |n: u64| (0..n).map(|n| 0x9800_0000 + n).collect::<Vec<u64>>();
        let rounds = if even { 6 } else { 1 };
        for _ in 0..6 / rounds {
            let all = requests(2 * rounds);
            for round in 0..rounds as usize {
                for (name, at) in [("MPI_Isend", 2 * round), ("MPI_Irecv", 2 * round + 1)] {
                    let envelope = task.envelope_of(at, 1, other, 0);
                    task.log.call(name, &envelope, &[Value::Word(all[at])]);
                }
            }
            let status = |at: usize| match at % 2 {
                0 => message(0, 0, 0),
                _ => received(other, 0),
            };
            let statuses = Value::List((0..all.len()).map(status).collect());
            let nulls = words(all.iter().map(|_| super::NULL_REQUEST));
            let inputs = [Value::Int(all.len() as i64), words(all)];
            task.log.call("MPI_Waitall", &inputs, &[nulls, statuses]);
        }
    });
}
