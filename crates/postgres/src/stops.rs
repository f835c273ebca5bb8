//! From when on a run has to stop.

/// What `ready` says of a run, given the name of its row: 0 for one that was told to stop, or of which it is recorded how it
/// ends; else when its time limit is over.
macro_rules! stops_at {
    ($run:literal) => {
        concat!(
            "CASE WHEN EXISTS (SELECT FROM {s}.inbox AS o \
                WHERE o.run = ",
            $run,
            ".id AND o.topic IN ('!cancel', '!terminate') OFFSET 0) \
             OR EXISTS (SELECT FROM {s}.step AS o \
                WHERE o.run = ",
            $run,
            ".id AND o.generation = ",
            $run,
            ".generation AND o.name = '//verdict' OFFSET 0) \
             THEN 0 ELSE {s}.over_at(",
            $run,
            ".opened_at, ",
            $run,
            ".timeout) END"
        )
    };
}

pub(crate) use stops_at;

#[cfg(test)]
mod tests {
    use windlass_core::VERDICT;
    use windlass_store::STOPS;

    #[test]
    fn the_names_in_the_statement_are_those_of_the_contract() {
        let sql = stops_at!("r");
        assert!(STOPS.iter().chain([&VERDICT]).all(|name| sql.contains(&format!("'{name}'"))), "{sql}");
    }
}
