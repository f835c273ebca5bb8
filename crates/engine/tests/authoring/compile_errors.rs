//! Each mistake has a message that says what to type. They are read by people: look at a changed one before you
//! accept it with `TRYBUILD=overwrite`. They are compiled in a package called `windlass-tests`: a check that is off where a
//! name says test would be missed.

#[test]
fn every_mistake_is_answered_with_what_to_type_even_where_the_name_of_the_crate_says_test() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
