//! Drawing workflows.

use clap::{Args, ValueEnum};

use crate::{
    api::{Api, escape},
    command::Said,
    sketch::sketch,
    trouble::Trouble,
};

#[derive(Args)]
pub(crate) struct Graph {
    /// The workflow's name
    workflow: String,
    /// How
    #[arg(long, value_enum, default_value_t = Format::Boxes)]
    format: Format,
    /// The version; the newest by default
    #[arg(long)]
    version: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Boxes and arrows, for the terminal
    Boxes,
    /// For Mermaid
    Mermaid,
    /// For Graphviz
    Dot,
}

impl Graph {
    pub(crate) async fn ask(self, api: &Api) -> Result<Said, Trouble> {
        let Self { workflow, format, version } = self;
        let version = version.map(|version| format!("?version={}", escape(&version))).unwrap_or_default();
        let answer = api.get(&format!("/workflows/{}{version}", escape(&workflow))).await?;
        Ok(Said::new(answer, move |answer, _| {
            let field = match format {
                Format::Boxes => return sketch(&answer["graph"]),
                Format::Mermaid => "mermaid",
                Format::Dot => "dot",
            };
            answer[field].as_str().unwrap_or_default().lines().map(str::to_owned).collect()
        }))
    }
}
