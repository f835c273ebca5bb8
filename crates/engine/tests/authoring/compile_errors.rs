//! Each mistake has a message that says what to type. They are read by people: look at a changed one before you
//! accept it with `TRYBUILD=overwrite`.

#[test]
fn every_mistake_is_answered_with_what_to_type() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
