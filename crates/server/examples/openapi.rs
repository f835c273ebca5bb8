//! Prints what can be asked of the API. `openapi.json` in this crate is what this prints.

fn main() {
    print!("{}", windlass_server::openapi());
}
