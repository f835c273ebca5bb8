//! Guessing what somebody meant to write.

/// The candidate that is nearest to a word, if one is near enough to be meant by it.
///
/// Near enough is one slip for every three letters, and one in shorter words. A slip is a letter too many, too
/// few, wrong, or swapped with its neighbour; case does not count. Of two equally near candidates, the first
/// wins.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = word.to_lowercase().chars().collect();
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        if candidate == word {
            continue;
        }
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        let bound = best.map_or((wanted.len() / 3).max(1), |(fewest, _)| fewest);
        if let Some(slips) = slips(&wanted, &letters, bound)
            && best.is_none_or(|(fewest, _)| slips < fewest)
            && slips < wanted.len().max(letters.len()).max(1)
        {
            best = Some((slips, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How many slips lie between two words, or `None` when there are more than `bound`.
fn slips(from: &[char], to: &[char], bound: usize) -> Option<usize> {
    if from.len().abs_diff(to.len()) > bound {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = Vec::with_capacity(to.len() + 1);
        row.push(i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = above[j] + usize::from(a != b);
            let mut fewest = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                fewest = fewest.min(before[j - 1] + 1);
            }
            row.push(fewest);
        }
        if row.iter().all(|slips| *slips > bound) {
            return None;
        }
        before = std::mem::replace(&mut above, row);
    }
    Some(above[to.len()]).filter(|slips| *slips <= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: [&str; 5] = ["extract", "clean", "enrich", "load", "report"];

    #[test]
    fn one_slip_is_forgiven() {
        for (word, meant) in [
            ("exract", "extract"),
            ("exttract", "extract"),
            ("claen", "clean"),
            ("laod", "load"),
            ("Load", "load"),
            ("repart", "report"),
        ] {
            assert_eq!(nearest(word, TASKS), Some(meant), "{word}");
        }
    }

    #[test]
    fn another_word_is_not_a_slip() {
        for word in ["transform", "x", "", "lo", "lead-generation"] {
            assert_eq!(nearest(word, TASKS), None, "{word}");
        }
        assert_eq!(nearest("b", ["a"]), None, "a word of which nothing is left is another word");
    }

    #[test]
    fn the_nearest_wins_and_the_first_of_equals() {
        assert_eq!(nearest("cleaned", ["cleanse", "cleaner", "clean"]), Some("cleaner"));
        assert_eq!(nearest("task3", ["task1", "task2"]), Some("task1"));
        assert_eq!(nearest("load", ["load"]), None, "the word itself is no guess");
    }
}
