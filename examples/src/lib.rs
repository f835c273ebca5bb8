//! Small programs that answer one question each. They are in `examples/examples`, and the README there lists them.
