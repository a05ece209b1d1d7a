//! Chat templates: the Jinja source in a GGUF file that lays out a conversation for its model.
//!
//! Templates are written for jinja2 as the transformers library sets it up: `trim_blocks`,
//! `lstrip_blocks`, loop controls, `raise_exception`, `strftime_now`, and a `tojson` that is Python's
//! `json.dumps`. They are rendered by minijinja with its Python compatibility methods; what still differs is
//! evened out by [`source`], [`python_json`] and [`python_methods`].

mod python_json;
mod python_methods;
mod source;
mod time;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, ErrorKind};

use minfer_gguf::Gguf;
pub use time::RenderTime;

/// The layout of conversations where a file has no template.
const CHATML: &str = "{% for message in messages %}\
    {{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}\
    {% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const NAME: &str = "chat_template";

/// Instructions and bytes a rendering may use: far more than a conversation that fills a context needs, and
/// little enough that a malicious template ends in seconds.
const FUEL: u64 = 30_000_000;

/// Why a template cannot be used or a conversation cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The metadata of the file has a template that is not text.
    #[error(transparent)]
    Gguf(#[from] minfer_gguf::Error),
    /// The template refused the conversation by calling `raise_exception`.
    #[error("the chat template refuses this conversation: {message}")]
    Refused {
        /// What the template said.
        message: String,
    },
    /// The template uses something that is unknown, or in a way that fails.
    #[error("line {line} of the chat template: {message} in `{construct}`")]
    Unusable {
        /// What is wrong.
        message: String,
        /// The line of the template, from 1.
        line: usize,
        /// What stands there.
        construct: String,
    },
    /// The context is not a JSON object.
    #[error("the context of a chat template must be an object")]
    Context,
    /// No character is left to keep user text apart from the template's.
    #[error("the conversation uses every private-use character of Unicode planes 15 and 16")]
    NoMarker,
    /// The special tokens of the vocabulary cannot be compiled.
    #[error("{0}")]
    SpecialTokens(String),
    /// A rendering time that is not RFC 3339.
    #[error("{text:?} is not a time such as 2026-11-29T12:00:00Z: {reason}")]
    Time {
        /// The text given.
        text: String,
        /// Why it is not a time.
        reason: String,
    },
}

/// What `raise_exception` carries through minijinja.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// A compiled template.
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// The template of `gguf`, or ChatML where it has none.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TemplateError> {
        let source = gguf.metadata().get_str("tokenizer.chat_template")?;
        ChatTemplate::new(source.unwrap_or(CHATML))
    }

    /// Compiles `source` and renders one user message with it, so that a template which cannot be used is
    /// found now and not in the first conversation.
    ///
    /// # Errors
    /// [`TemplateError::Unusable`] with the line and the construct. A template that refuses the trial by
    /// `raise_exception` can be used.
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        let template = ChatTemplate::compile(source)?;
        let trial = serde_json::json!({
            "messages": [{"role": "user", "content": "Hello"}],
            "add_generation_prompt": true,
            "bos_token": "",
            "eos_token": "",
        });
        match template.render(trial, &RenderTime::now()) {
            Ok(_) | Err(TemplateError::Refused { .. }) => Ok(template),
            Err(e) => Err(e),
        }
    }

    /// Compiles `source` without the trial.
    ///
    /// # Errors
    /// [`TemplateError::Unusable`] with the line and the construct.
    pub fn compile(source: &str) -> Result<Self, TemplateError> {
        let mut environment = environment();
        environment
            .add_template_owned(NAME, source::adapt(source))
            .map_err(|e| explain(&e, source))?;
        Ok(ChatTemplate {
            source: source.to_owned(),
            environment,
        })
    }

    /// Renders `context`, an object with `messages`, and perhaps `tools`, `add_generation_prompt`,
    /// `bos_token`, `eos_token` and whatever else the template reads. Leave a key out rather than setting it
    /// to null: some templates cannot read null. `now` is what `strftime_now` formats.
    ///
    /// # Errors
    /// [`TemplateError::Refused`] if the template raises, [`TemplateError::Unusable`] if it fails.
    pub fn render(
        &self,
        context: serde_json::Value,
        now: &RenderTime,
    ) -> Result<String, TemplateError> {
        let serde_json::Value::Object(mut context) = context else {
            return Err(TemplateError::Context);
        };
        let own_clock = context
            .remove("strftime_now")
            .map(|own| Value::from(Serde(own)));
        let now = now.clone();
        let clock = own_clock.unwrap_or_else(|| {
            Value::from_function(move |format: &str| {
                now.strftime(format)
                    .map_err(|reason| minijinja::Error::new(ErrorKind::InvalidOperation, reason))
            })
        });
        let variables = context
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(Serde(value))));
        let variables = Value::from_pairs(variables.chain([("strftime_now".to_owned(), clock)]));
        let rendered = self
            .environment
            .get_template(NAME)
            .and_then(|t| t.render(variables));
        rendered.map_err(|e| explain(&e, &self.source))
    }

    /// The source the template was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let whitespace = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(whitespace.unwrap_or_default());
    // The name of a template decides in minijinja; a prompt is never HTML.
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(python_methods::call);
    environment.set_debug(true);
    environment.set_fuel(Some(FUEL));
    environment.add_filter("tojson", python_json::tojson);
    environment.add_function(source::ITERABLE, iterable);
    environment.add_function(
        "raise_exception",
        |message: &Value| -> Result<Value, minijinja::Error> {
            let raised = Raised(message.to_string());
            Err(
                minijinja::Error::new(ErrorKind::InvalidOperation, raised.to_string())
                    .with_source(raised),
            )
        },
    );
    environment
}

/// Python iterates over strings, sequences, mappings and iterators; jinja2 adds what is undefined.
fn iterable(value: Value) -> Result<Value, minijinja::Error> {
    let unusable = match value.kind() {
        ValueKind::None => "none",
        ValueKind::Bool => "a boolean",
        ValueKind::Number => "a number",
        _ => return Ok(value),
    };
    let message = format!("{unusable} is not iterable");
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// Names what failed, and where in `source`.
fn explain(error: &minijinja::Error, source: &str) -> TemplateError {
    let mut innermost = error;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref() {
            return TemplateError::Refused {
                message: message.clone(),
            };
        }
        innermost = current.downcast_ref().unwrap_or(innermost);
        cause = current.source();
    }
    let line = innermost.line().or(error.line()).unwrap_or(1);
    let at_error = innermost.template_source().zip(innermost.range());
    let construct = at_error
        .and_then(|(adapted, range)| adapted.get(range))
        .filter(|c| !c.is_empty());
    let line_text = || {
        source
            .lines()
            .nth(line.saturating_sub(1))
            .unwrap_or_default()
    };
    TemplateError::Unusable {
        message: match innermost.detail() {
            Some(detail) => format!("{}: {detail}", innermost.kind()),
            None => innermost.kind().to_string(),
        },
        line,
        construct: abbreviated(construct.unwrap_or_else(line_text).trim()),
    }
}

/// At most 120 characters of `line`.
fn abbreviated(line: &str) -> String {
    match line.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
