//! Boxes and arrows for a terminal.
//!
//! What depends on something stands below it, as many rows down as the longest way to it has steps. An arrow that passes a
//! row goes through it in a column of its own. What leads back up is said in words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::show::{each, text};

/// Blanks between what stands beside each other.
const GAP: usize = 3;
/// Where the first row begins, so that wider ones below have room on their left.
const MARGIN: usize = 10_000;

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// What stands in a row.
struct Item {
    /// What is written in its box; nothing for an arrow that passes by.
    label: Option<String>,
    /// Where its middle is.
    at: usize,
    /// The items of the next row that it leads to.
    to: Vec<usize>,
}

impl Item {
    fn new(label: Option<String>) -> Self {
        Self { label, at: 0, to: Vec::new() }
    }

    /// An odd number, so that it has a middle.
    fn width(&self) -> usize {
        self.label.as_ref().map_or(1, |label| (label.chars().count() + 4) | 1)
    }

    fn start(&self) -> usize {
        self.at - self.width() / 2
    }
}

/// The lines of a drawing.
pub(crate) fn sketch(graph: &Value) -> Vec<String> {
    let names: Vec<String> = each(graph, "nodes").map(|node| text(&node["name"])).collect();
    let place = |name: &Value| names.iter().position(|other| *other == text(name));
    let edges: BTreeSet<(usize, usize)> =
        each(graph, "edges").filter_map(|edge| Some((place(&edge["from"])?, place(&edge["to"])?))).collect();
    let back = leading_back(names.len(), &edges);
    let forth: BTreeSet<_> = edges.difference(&back).copied().collect();
    let labels = each(graph, "nodes").map(label).collect();
    let mut rows = rows(labels, &forth);
    place_all(&mut rows);
    let mut lines = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let next = rows.get(number + 1).map_or(&[][..], Vec::as_slice);
        lines.extend(boxes(row));
        lines.extend(arrows(row, next));
    }
    lines.extend(back.iter().map(|(from, to)| format!("{} leads back to {}", names[*from], names[*to])));
    for node in each(graph, "nodes").filter(|node| !node["rule"].is_null()) {
        lines.push(format!("{}: when {}", text(&node["name"]), text(&node["rule"])));
    }
    lines
}

fn label(node: &Value) -> String {
    let name = text(&node["name"]);
    match (node["for_each"].as_str(), node["is_output"] == true) {
        (Some(over), _) => format!("{name} × {over}"),
        (None, true) => format!("({name})"),
        (None, false) => name,
    }
}

/// The edges that lead to where one has come from.
fn leading_back(count: usize, edges: &BTreeSet<(usize, usize)>) -> BTreeSet<(usize, usize)> {
    fn walk(
        from: usize,
        edges: &BTreeSet<(usize, usize)>,
        way: &mut Vec<usize>,
        seen: &mut BTreeSet<usize>,
        back: &mut BTreeSet<(usize, usize)>,
    ) {
        if !seen.insert(from) {
            return;
        }
        way.push(from);
        for edge in edges.range((from, 0)..=(from, usize::MAX)) {
            match way.contains(&edge.1) {
                true => drop(back.insert(*edge)),
                false => walk(edge.1, edges, way, seen, back),
            }
        }
        way.pop();
    }
    let (mut seen, mut back) = (BTreeSet::new(), BTreeSet::new());
    (0..count).for_each(|node| walk(node, edges, &mut Vec::new(), &mut seen, &mut back));
    back
}

/// Puts everything into rows, and what passes a row into it.
fn rows(labels: Vec<String>, edges: &BTreeSet<(usize, usize)>) -> Vec<Vec<Item>> {
    let mut level = vec![0; labels.len()];
    // There is no circle left, so this comes to an end.
    while let Some((from, to)) = edges.iter().find(|(from, to)| level[*to] <= level[*from]) {
        level[*to] = level[*from] + 1;
    }
    let mut rows: Vec<Vec<Item>> = Vec::new();
    rows.resize_with(level.iter().max().map_or(0, |last| last + 1), Vec::new);
    let mut index = Vec::new();
    for (label, level) in labels.into_iter().zip(&level) {
        index.push(rows[*level].len());
        rows[*level].push(Item::new(Some(label)));
    }
    // Arrows from one item to far rows share their way as long as they can.
    let mut passing: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (from, to) in edges {
        let mut here = index[*from];
        for row in level[*from] + 1..level[*to] {
            let through = *passing.entry((*from, row)).or_insert_with(|| {
                rows[row].push(Item::new(None));
                rows[row].len() - 1
            });
            link(&mut rows[row - 1][here].to, through);
            here = through;
        }
        link(&mut rows[level[*to] - 1][here].to, index[*to]);
    }
    rows
}

fn link(to: &mut Vec<usize>, item: usize) {
    if !to.contains(&item) {
        to.push(item);
    }
}

/// Says where everything stands: below what leads to it, as far as there is room.
fn place_all(rows: &mut [Vec<Item>]) {
    for number in 0..rows.len() {
        let (above, below) = rows.split_at_mut(number);
        let above = above.last().map_or(&[][..], Vec::as_slice);
        let row = &mut below[0];
        let wishes: Vec<usize> = (0..row.len()).map(|item| wish(above, item)).collect();
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by_key(|item| wishes[*item]);
        let mut free = 0;
        for item in order {
            let half = row[item].width() / 2;
            let mut at = wishes[item].max(free + half);
            // Right below what does not lead to it, it would seem to.
            while above
                .iter()
                .any(|other| other.at == at && !other.to.is_empty() && !other.to.contains(&item))
            {
                at += 2;
            }
            row[item].at = at;
            free = at + half + 1 + GAP;
        }
    }
    let left = rows.iter().flatten().map(Item::start).min().unwrap_or(0);
    rows.iter_mut().flatten().for_each(|item| item.at -= left);
}

/// The middle of what leads to an item.
fn wish(above: &[Item], item: usize) -> usize {
    let mut from: Vec<usize> =
        above.iter().filter(|other| other.to.contains(&item)).map(|other| other.at).collect();
    from.sort_unstable();
    match from.len() {
        0 => MARGIN,
        count if count % 2 == 1 => from[count / 2],
        count => (from[count / 2 - 1] + from[count / 2]) / 2,
    }
}

/// The three lines of a row.
fn boxes(row: &[Item]) -> [String; 3] {
    let mut lines = [const { Vec::<char>::new() }; 3];
    let mut put = |line: usize, at: usize, letters: &str| {
        for (offset, letter) in letters.chars().enumerate() {
            let line: &mut Vec<char> = &mut lines[line];
            line.resize(line.len().max(at + offset + 1), ' ');
            line[at + offset] = letter;
        }
    };
    for item in row {
        let Some(label) = &item.label else {
            (0..3).for_each(|line| put(line, item.at, "│"));
            continue;
        };
        let (start, bar, room) = (item.start(), "─".repeat(item.width() - 2), item.width() - 4);
        put(0, start, &format!("┌{bar}┐"));
        put(1, start, &format!("│ {label:room$} │"));
        put(2, start, &format!("└{bar}┘"));
        if !item.to.is_empty() {
            put(2, item.at, "┬");
        }
    }
    lines.map(|line| line.into_iter().collect::<String>().trim_end().to_owned())
}

/// The lines between a row and the next one: each item has a line of its own for its arrows to go aside on.
fn arrows(row: &[Item], next: &[Item]) -> Vec<String> {
    let aside: Vec<&Item> =
        row.iter().filter(|item| item.to.iter().any(|to| next[*to].at != item.at)).collect();
    let height = if row.iter().all(|item| item.to.is_empty()) { 0 } else { aside.len() + 1 };
    let width = row.iter().chain(next).map(|item| item.at + 1).max().unwrap_or(0);
    let mut ways = vec![vec![0_u8; width]; height];
    for item in row.iter().filter(|item| !item.to.is_empty()) {
        let track = aside.iter().position(|other| std::ptr::eq(*other, item)).unwrap_or(0);
        for to in &item.to {
            let end = next[*to].at;
            for (line, ways) in ways.iter_mut().enumerate() {
                ways[item.at] |= if line <= track { UP } else { 0 } | if line < track { DOWN } else { 0 };
                ways[end] |= if line > track { UP } else { 0 } | if line >= track { DOWN } else { 0 };
            }
            let (left, right) = (item.at.min(end), item.at.max(end));
            for column in left..right {
                ways[track][column] |= RIGHT;
                ways[track][column + 1] |= LEFT;
            }
        }
    }
    let heads: BTreeSet<usize> = row
        .iter()
        .flat_map(|item| &item.to)
        .filter(|to| next[**to].label.is_some())
        .map(|to| next[*to].at)
        .collect();
    let last = height.saturating_sub(1);
    let draw = |(line, ways): (usize, Vec<u8>)| {
        let letter = |(column, way): (usize, &u8)| {
            if line == last && heads.contains(&column) { '▼' } else { letter(*way) }
        };
        ways.iter().enumerate().map(letter).collect::<String>().trim_end().to_owned()
    };
    ways.into_iter().enumerate().map(draw).collect()
}

/// The letter that goes these ways.
fn letter(ways: u8) -> char {
    const ALL: u8 = UP | DOWN | LEFT | RIGHT;
    match ways {
        0 => ' ',
        w if w & (LEFT | RIGHT) == 0 => '│',
        w if w & (UP | DOWN) == 0 => '─',
        w if w == UP | RIGHT => '└',
        w if w == UP | LEFT => '┘',
        w if w == DOWN | RIGHT => '┌',
        w if w == DOWN | LEFT => '┐',
        w if w == ALL & !LEFT => '├',
        w if w == ALL & !RIGHT => '┤',
        w if w == ALL & !DOWN => '┴',
        w if w == ALL & !UP => '┬',
        _ => '┼',
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(nodes: &[&str], edges: &[(&str, &str)]) -> String {
        let nodes: Vec<Value> = nodes.iter().map(|name| json!({"name": name})).collect();
        let edges: Vec<Value> = edges.iter().map(|(from, to)| json!({"from": from, "to": to})).collect();
        sketch(&json!({"nodes": nodes, "edges": edges})).join("\n")
    }

    #[test]
    fn a_chain_goes_straight_down() {
        let expected = "\
┌───┐
│ a │
└─┬─┘
  ▼
┌───┐
│ b │
└───┘";
        assert_eq!(drawn(&["a", "b"], &[("a", "b")]), expected);
    }

    #[test]
    fn ways_part_meet_and_pass_by() {
        let seen =
            drawn(&["a", "b", "c", "d"], &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")]);
        let expected = "\
┌───┐
│ a │
└─┬─┘
  ├───────┬─────┐
  ▼       ▼     │
┌───┐   ┌───┐   │
│ b │   │ c │   │
└─┬─┘   └─┬─┘   │
  └───────┤     │
          ├─────┘
          ▼
        ┌───┐
        │ d │
        └───┘";
        assert_eq!(seen, expected, "{seen}");
    }

    #[test]
    fn what_leads_back_is_said_in_words() {
        let seen = drawn(&["open", "shut"], &[("open", "shut"), ("shut", "open"), ("open", "open")]);
        assert!(seen.ends_with("open leads back to open\nshut leads back to open"), "{seen}");
    }
}
