//! `minfer debug template`: renderings of chat templates.

use anyhow::Result;
use clap::Args;
use minfer_text::{ChatTemplate, RenderTime, TemplateError};
use serde::{Deserialize, Serialize};

use super::answer_lines;

/// Render chat templates: {"template": "…", "context": {…}, "now": "RFC 3339"} gives {"rendered": "…"}
///
/// Without "now" it is the present.
#[derive(Debug, Args)]
pub struct TemplateArgs {}

#[derive(Deserialize)]
struct Question {
    template: String,
    context: serde_json::Value,
    now: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    rendered: String,
}

pub fn execute(_: TemplateArgs) -> Result<()> {
    answer_lines(|question: Question| -> Result<_, TemplateError> {
        let now = match &question.now {
            Some(text) => RenderTime::from_rfc3339(text)?,
            None => RenderTime::now(),
        };
        let template = ChatTemplate::compile(&question.template)?;
        Ok(Answer {
            rendered: template.render(question.context, &now)?,
        })
    })
}
