//! The lists that a `for_each` can go through.

/// A list with an order, which a `for_each` can go through.
///
/// An element's place is its identity in the records, so a set or a map will not do.
#[diagnostic::on_unimplemented(
    message = "`for_each` needs a list, and `{Self}` is none",
    label = "the elements of `{Self}` have no order to be handed out in",
    note = "return a `Vec<T>`: the order of the elements is their identity in the records"
)]
pub trait Elements {
    /// What the list holds.
    type Element;

    /// The elements in their order.
    fn elements(&self) -> &[Self::Element];
}

impl<T> Elements for Vec<T> {
    type Element = T;

    fn elements(&self) -> &[T] {
        self
    }
}

impl<T> Elements for Box<[T]> {
    type Element = T;

    fn elements(&self) -> &[T] {
        self
    }
}

impl<T, const N: usize> Elements for [T; N] {
    type Element = T;

    fn elements(&self) -> &[T] {
        self
    }
}

/// Asks the compiler whether a type is a list.
pub fn assert_list<T: Elements>() {}
