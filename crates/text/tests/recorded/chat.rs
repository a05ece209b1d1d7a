//! Renderings equal jinja2's.

use std::fs;

use minfer_testdata::fixture;
use minfer_text::{ChatTemplate, RenderTime, TemplateError};
use serde::Deserialize;

#[derive(Deserialize)]
pub struct Recording {
    pub template: String,
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
pub struct Case {
    pub case: String,
    pub context: serde_json::Value,
    pub now: Option<String>,
    pub rendered: Option<String>,
    pub refused: Option<String>,
    pub error: Option<String>,
}

pub fn time(text: Option<&str>) -> RenderTime {
    RenderTime::from_rfc3339(text.unwrap_or("2026-11-29T12:00:00Z")).expect("a time")
}

/// The recordings in `chat/`, with their file names.
pub fn recordings() -> Vec<(String, Recording)> {
    let entries = fs::read_dir(fixture("chat")).expect("the recordings");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let recordings = paths.filter(|path| path.extension().is_some_and(|e| e == "json"));
    recordings
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a recording");
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            (name, serde_json::from_str(&text).expect("a recording"))
        })
        .collect()
}

#[test]
fn every_recorded_conversation() {
    let recordings = recordings();
    assert_eq!(recordings.len(), 9);
    let mut cases = 0;
    for (name, recording) in recordings {
        let template =
            ChatTemplate::new(&recording.template).unwrap_or_else(|e| panic!("{name}: {e}"));
        for case in recording.cases {
            cases += 1;
            let label = format!("{name}, {}", case.case);
            let result = template.render(case.context, &time(case.now.as_deref()));
            match (result, case.rendered, case.refused, case.error) {
                (Ok(text), Some(rendered), None, None) => assert_eq!(text, rendered, "{label}"),
                (Err(TemplateError::Refused { message }), None, Some(refused), None) => {
                    assert!(
                        refused.contains(&message),
                        "{label}: {message:?}, not {refused:?}"
                    );
                }
                (Err(TemplateError::Unusable { .. }), None, None, Some(_)) => {}
                (result, ..) => panic!("{label}: {result:?}"),
            }
        }
    }
    assert!(cases >= 81, "{cases} cases");
}
