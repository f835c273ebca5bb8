//! What a process says about itself, kept for the test to read.

use std::{fmt::Write as _, fs::File, io::Write, path::Path, sync::Arc};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Writes every event of this process, from `INFO` up, as one line of a file.
struct Journal {
    file: Arc<File>,
}

/// Sends what this process logs to a file.
pub fn keep(path: &Path) {
    let file = File::options().create(true).append(true).open(path).expect("the journal opens");
    let journal = Journal { file: Arc::new(file) };
    tracing::subscriber::set_global_default(journal).expect("the process has no other journal");
}

impl Subscriber for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        line.0.push('\n');
        (&*self.file).write_all(line.0.as_bytes()).expect("the journal takes a line");
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
