//! What groups hand to each other, and in which order they run.

use super::{
    fuse::{Group, Place},
    items::Item,
    lower::Lowered,
};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Items that somebody outside their group reads.
pub fn stored(l: &Lowered, place: &[Place]) -> Vec<bool> {
    let mut stored = vec![false; l.items.len()];
    let group = |i: usize| match place[i] {
        Place::Group { group, .. } => Some(group),
        Place::Dead | Place::Source => None,
    };
    for (i, item) in l.items.iter().enumerate() {
        if place[i] == Place::Dead {
            continue;
        }
        for e in &item.inputs {
            stored[e.base] |= group(e.base).is_some() && group(e.base) != group(i);
        }
    }
    l.roots.iter().for_each(|(_, e)| stored[e.base] |= group(e.base).is_some());
    stored
}

/// Groups in an order that can run: of those that are ready, the one whose first item is oldest.
pub fn schedule(items: &[Item], age: &[u64], groups: Vec<Group>, place: Vec<Place>) -> (Vec<Group>, Vec<Place>) {
    let at = |i: usize| match place[i] {
        Place::Group { group, .. } => Some(group),
        Place::Dead | Place::Source => None,
    };
    let mut readers: Vec<Vec<usize>> = vec![vec![]; groups.len()];
    let mut waits = vec![0usize; groups.len()];
    for (g, group) in groups.iter().enumerate() {
        let mut from: Vec<usize> = group
            .items
            .iter()
            .flat_map(|&i| items[i].inputs.iter().filter_map(|e| at(e.base)))
            .filter(|&h| h != g)
            .collect();
        from.sort_unstable();
        from.dedup();
        waits[g] = from.len();
        from.into_iter().for_each(|h| readers[h].push(g));
    }
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> = (0..groups.len())
        .filter(|&g| waits[g] == 0 && !groups[g].items.is_empty())
        .map(|g| Reverse((age[groups[g].items[0]], g)))
        .collect();
    let mut order = Vec::with_capacity(groups.len());
    while let Some(Reverse((_, g))) = ready.pop() {
        order.push(g);
        for &r in &readers[g] {
            waits[r] -= 1;
            if waits[r] == 0 {
                ready.push(Reverse((age[groups[r].items[0]], r)));
            }
        }
    }
    let mut new = vec![usize::MAX; groups.len()];
    order.iter().enumerate().for_each(|(n, &g)| new[g] = n);
    let place = place
        .into_iter()
        .map(|p| match p {
            Place::Group { group, row } => Place::Group { group: new[group], row },
            Place::Dead | Place::Source => p,
        })
        .collect();
    let mut by_old: Vec<Option<Group>> = groups.into_iter().map(Some).collect();
    (order.into_iter().filter_map(|g| by_old[g].take()).collect(), place)
}
