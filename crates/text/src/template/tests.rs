use serde_json::json;

use super::*;

fn time() -> RenderTime {
    RenderTime::from_rfc3339("2026-11-29T12:00:00Z").unwrap()
}

fn render(source: &str, context: serde_json::Value) -> Result<String, TemplateError> {
    ChatTemplate::compile(source).and_then(|template| template.render(context, &time()))
}

#[test]
fn chatml_where_the_file_has_no_template() {
    let messages =
        json!([{"role": "user", "content": "Hi\n"}, {"role": "assistant", "content": " a "}]);
    let context = json!({"messages": messages, "add_generation_prompt": true});
    assert_eq!(
        render(CHATML, context).unwrap(),
        "<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\n a <|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn python_methods_filters_and_values() {
    for (source, expected) in [
        (
            "{{ x.strip() + '|' + x.split('b')[-1] + '|' + x.upper() }}",
            "abc|c |ABC ",
        ),
        (
            "{{ true }} {{ none }} {{ 1.0 }} {{ missing }}",
            "True None 1.0 ",
        ),
        (
            "{{ 'b' in x }} {{ x is string }} {{ d.get('z', 3) }}",
            "True True 3",
        ),
        (
            "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
            "z9=1;a=2;",
        ),
        ("{% for c in missing %}never{% endfor %}", ""),
        (
            "{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "1",
        ),
        ("{% generation %}{{ x }}{% endgeneration %}", "abc "),
        ("{{ x|tojson }}{{ '<&>'|tojson }}", "\"abc \"\"<&>\""),
        ("{{ strftime_now('%d %b %Y') }}", "29 Nov 2026"),
        ("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"),
    ] {
        let context = json!({"x": "abc ", "d": {"z9": 1, "a": 2}});
        assert_eq!(render(source, context).unwrap(), expected, "{source}");
    }
}

#[test]
fn raise_exception_refuses_with_its_message() {
    let source = "{% macro m() %}{{ raise_exception('No <tools> & co!') }}{% endmacro %}{{ m() }}";
    match render(source, json!({})) {
        Err(TemplateError::Refused { message }) => assert_eq!(message, "No <tools> & co!"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unusable_template_refuses_the_load_with_line_and_construct() {
    for (source, line, named) in [
        ("a\n{% frobnicate x %}", 2, "frobnicate"),
        ("a\nb\n{{ messages|frobnicate }}", 3, "frobnicate"),
        ("{{ messages[0].content.frobnicate() }}", 1, "frobnicate"),
        (
            "\n{% if messages is frobnicate %}{% endif %}",
            2,
            "frobnicate",
        ),
        ("\n\n\n{{ frobnicate(1) }}", 4, "frobnicate"),
        (
            "{% for m in messages %}\n{{ m.content }}",
            2,
            "expected end of block",
        ),
        (
            "\n{% for m in none %}{% endfor %}",
            2,
            "none is not iterable",
        ),
        ("\n{{ missing.attribute }}", 2, "missing.attribute"),
    ] {
        match ChatTemplate::new(source) {
            Err(e @ TemplateError::Unusable { .. }) => {
                let text = e.to_string();
                assert!(text.contains(named), "{source}: {text}");
                assert!(
                    text.starts_with(&format!("line {line} ")),
                    "{source}: {text}"
                );
            }
            Err(other) => panic!("{source}: {other}"),
            Ok(_) => panic!("{source} loads"),
        }
    }
}

#[test]
fn a_template_that_refuses_the_trial_can_be_used() {
    let source = "{% if messages|length < 2 %}{{ raise_exception('two please') }}{% endif %}ok";
    let template = ChatTemplate::new(source).unwrap();
    let two =
        json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]});
    assert_eq!(template.render(two, &time()).unwrap(), "ok");
}

#[test]
fn an_endless_template_is_an_error() {
    let source =
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}";
    assert!(matches!(
        render(source, json!({})),
        Err(TemplateError::Unusable { .. })
    ));
}

#[test]
fn a_context_that_is_no_object_is_an_error() {
    assert!(matches!(
        render("x", json!([1])),
        Err(TemplateError::Context)
    ));
}
