use windlass::machine::MachineState;

#[derive(MachineState)]
enum Carries {
    New,
    Paid(u32),
    Packed { boxes: u32 },
}

#[derive(MachineState)]
struct NotAnEnum;

#[derive(MachineState)]
enum Generic<T> {
    New,
    Paid(T),
}

#[derive(MachineState)]
enum Empty {}

#[derive(MachineState, Clone, serde::Serialize, serde::Deserialize)]
#[machine_state(krate = windlass)]
enum Elsewhere {
    Only,
}

fn main() {}
