//! Which word somebody probably meant.

/// The candidate nearest to the word, if any is near enough to be what was meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = word.chars().count().div_ceil(3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= bound && *candidate != word)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A line that offers the nearest candidate, or nothing.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, candidates) {
        Some(near) => format!("\nhelp: did you mean `{near}`?"),
        None => String::new(),
    }
}

/// How many characters must be changed, added, dropped or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut before = vec![0; right.len() + 1];
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut line = vec![row; right.len() + 1];
        for column in 1..=right.len() {
            let same = left[row - 1] == right[column - 1];
            line[column] =
                (above[column - 1] + usize::from(!same)).min(above[column] + 1).min(line[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                line[column] = line[column].min(before[column - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, line);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_word_that_was_meant() {
        let tasks = ["extract", "clean", "enrich", "load", "report"];
        assert_eq!(nearest("exract", tasks), Some("extract"));
        assert_eq!(nearest("laod", tasks), Some("load"));
        assert_eq!(nearest("Clean", tasks), Some("clean"));
    }

    #[test]
    fn a_word_that_resembles_nothing_gets_no_suggestion() {
        assert_eq!(nearest("weather", ["extract", "clean"]), None);
        assert_eq!(nearest("a", []), None);
    }
}
