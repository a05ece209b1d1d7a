//! Requests in company and alone.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use minfer_engine::sampling::SamplerParams;
use minfer_engine::{
    Engine, EngineOptions, Event, Finish, GenerateOptions, Request, RequestId, Scheduler,
    SchedulerOptions,
};
use minfer_testdata::tiny_model;

pub fn load(name: &str, options: &EngineOptions) -> Engine {
    Engine::load(tiny_model(name), options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Takes cells away until `cells` are left.
pub fn occupy(engine: &mut Engine, cells: usize) {
    let occupied = engine.create_sequence();
    let taken = engine.free_cells() - cells;
    engine.reserve(occupied, taken).expect("free cells");
}

pub fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request {
        prompt,
        options: GenerateOptions {
            sampler: SamplerParams::greedy(),
            max_tokens: Some(max_tokens),
            ..GenerateOptions::default()
        },
        share_generated: false,
    }
}

/// Some tokens of the tiny vocabularies; others for another `salt`.
pub fn tokens(len: usize, salt: usize) -> Vec<u32> {
    (0..len)
        .map(|i| ((i * 37 + salt * 101 + 11) % 300) as u32)
        .collect()
}

/// A prompt that the greedy model continues for at least `generated` tokens.
pub fn fertile(engine: &mut Engine, len: usize, generated: usize) -> Vec<u32> {
    let mut prompts = (0..).map(|salt| tokens(len, salt));
    let prompt = prompts.find(|prompt| {
        let (_, _, finish) = alone(engine, &greedy(prompt.clone(), generated));
        finish.generated == generated
    });
    prompt.expect("the salts do not end")
}

/// What was heard of a request.
#[derive(Debug, Default)]
pub struct Heard {
    pub text: String,
    /// Prompt and generated tokens, as of before it ended.
    pub tokens: Vec<u32>,
    /// Steps computed when it first said something, and when it ended.
    pub first: Option<usize>,
    pub last: usize,
    pub end: Option<Result<Finish, String>>,
}

impl Heard {
    #[track_caller]
    pub fn finish(&self) -> &Finish {
        match &self.end {
            Some(Ok(finish)) => finish,
            other => panic!("{other:?}"),
        }
    }
}

/// A scheduler, and what was heard of its requests.
pub struct Company {
    pub scheduler: Scheduler,
    pub heard: BTreeMap<RequestId, Heard>,
    pub steps: usize,
}

impl Company {
    pub fn new(engine: Engine, options: SchedulerOptions) -> Self {
        Company {
            scheduler: Scheduler::new(engine, options),
            heard: BTreeMap::new(),
            steps: 0,
        }
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        let id = self.scheduler.submit(request).expect("a valid request");
        self.heard.insert(id, Heard::default());
        id
    }

    pub fn step(&mut self) -> bool {
        self.steps += 1;
        let (heard, step) = (&mut self.heard, self.steps);
        let more = self.scheduler.step(|id, event| {
            let heard = heard.get_mut(&id).expect("a known request");
            assert!(heard.end.is_none(), "{id} has ended");
            match event {
                Ok(Event::Text(text)) => {
                    assert!(!text.is_empty());
                    heard.text.push_str(text);
                    heard.first.get_or_insert(step);
                }
                Ok(Event::Done(finish)) => heard.end = Some(Ok(finish.clone())),
                Err(error) => heard.end = Some(Err(error.to_string())),
            }
            heard.last = step;
            ControlFlow::Continue(())
        });
        for (&id, heard) in &mut self.heard {
            let tokens = self.scheduler.tokens(id);
            if !tokens.is_empty() {
                heard.tokens = tokens.to_vec();
            }
        }
        more
    }

    pub fn run(&mut self) {
        while self.step() {
            assert!(self.steps < 20_000, "no end");
        }
    }

    #[track_caller]
    pub fn finish(&self, id: RequestId) -> &Finish {
        self.heard[&id].finish()
    }
}

/// What a request gives with an engine to itself: its text, all its tokens with a row, its end.
pub fn alone(engine: &mut Engine, request: &Request) -> (String, Vec<u32>, Finish) {
    let mut session = engine.session();
    let generator = session.generate(&request.prompt, request.options.clone());
    let mut text = String::new();
    let finish = generator.expect("valid options").run(|piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    });
    let finish = finish.unwrap_or_else(|e| panic!("{e}"));
    (text, session.tokens().to_vec(), finish)
}
