//! Rows of text in columns.

/// Rows in columns that are as wide as what is in them. The colour of a cell takes no room.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(titles: &[&str]) -> Self {
        Self { rows: vec![titles.iter().map(|title| title.to_uppercase()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines, without blanks at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| shown(cell)).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| {
                let room = width - shown(cell);
                format!("{cell}{}", " ".repeat(room))
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// How wide a cell is, without what only says its colour.
fn shown(cell: &str) -> usize {
    let (mut count, mut is_colour) = (0, false);
    for letter in cell.chars() {
        match (letter, is_colour) {
            ('\x1b', _) => is_colour = true,
            ('m', true) => is_colour = false,
            (_, true) => {}
            (_, false) => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_whatever_its_colour() {
        let mut table = Table::new(&["a", "state"]);
        table.row(vec!["long one".into(), "\x1b[31mfailed\x1b[0m".into()]);
        table.row(vec!["ü".into(), "ok".into()]);
        assert_eq!(table.lines(), ["A         STATE", "long one  \x1b[31mfailed\x1b[0m", "ü         ok"]);
    }
}
