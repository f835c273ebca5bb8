-- Runs that were discarded, of which some rows are still to go: there were more of them than go at once.
CREATE TABLE remains (
    run BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
