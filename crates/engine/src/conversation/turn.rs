//! Making room for a turn: which of the oldest turns leave the context.

use std::ops::Range;

use minfer_text::{ChatText, render_chat};

use super::State;
use super::answer::{Begun, TurnReport};
use super::transcript::Plan;
use crate::{Engine, Error, GenerateOptions, Session};

/// A prompt with as many of the oldest turns dropped as it takes to fit.
struct Fitted {
    plan: Plan,
    /// Oldest turns that it lacks.
    dropped: usize,
}

impl State {
    /// Brings the session to where the prompt's rest can be computed.
    ///
    /// # Errors
    /// The prompt cannot be rendered or does not fit.
    pub fn begin_turn(
        &mut self,
        session: &mut Session<'_>,
        options: &GenerateOptions,
    ) -> Result<Begun, Error> {
        options.sampler.validate()?;
        let n_ctx = session.engine().n_ctx();
        // Room for an answer, but a long one may as well shift when it comes to that.
        let headroom = options.max_tokens.unwrap_or(n_ctx).min(n_ctx / 4);
        let fitted = self.fit(session, headroom)?;
        let (plan, before) = (fitted.plan, self.history.dropped());
        let report = TurnReport {
            prefilled: plan.rest.len(),
            reused: plan.reused(),
            dropped_turns: fitted.dropped - before,
            shifted: plan.removed.is_some(),
        };
        self.transcript = plan.prompt;
        session.truncate(plan.kept);
        if let Some(removed) = plan.removed {
            shift(session, removed)?;
        }
        self.history.set_dropped(fitted.dropped);
        self.shifts += usize::from(report.dropped_turns > 0);
        Ok(Begun {
            report,
            prompt: plan.rest,
            dropped_before: before,
        })
    }

    /// The prompt of the turn that has begun, with room for `headroom` tokens after it if dropping turns can
    /// make it.
    fn fit(&self, session: &Session<'_>, headroom: usize) -> Result<Fitted, Error> {
        let n_ctx = session.engine().n_ctx();
        let dropped = self.history.dropped();
        let whole = self.plan(session, dropped)?;
        let needed = whole.prompt.tokens();
        let mut fitted = Fitted {
            plan: whole,
            dropped,
        };
        if self.shift && needed + headroom > n_ctx {
            // Beyond what is needed, so that the next turns do not make room again at once.
            let most = n_ctx.saturating_sub(headroom + n_ctx / 8);
            let dropped = self.drop_turns(session, &fitted, most)?;
            fitted = dropped.unwrap_or(fitted);
        }
        let needed = fitted.plan.prompt.tokens();
        if needed > n_ctx {
            let used = if self.shift { 0 } else { fitted.plan.kept };
            return Err(Error::PromptTooLong {
                prompt: needed - used,
                used,
                n_ctx,
            });
        }
        Ok(fitted)
    }

    /// Drops the oldest turns until at most `most` tokens or only the last turn is left; `None` if it is the
    /// only one.
    fn drop_turns(
        &self,
        session: &Session<'_>,
        whole: &Fitted,
        most: usize,
    ) -> Result<Option<Fitted>, Error> {
        let mut fitted = None;
        for dropped in whole.dropped + 1..self.history.turns() {
            let text = self.render(session.engine(), dropped)?;
            let shifted = whole.plan.without(&text);
            let plan = shifted.unwrap_or_else(|| self.plan_for(session, text));
            let fits = plan.prompt.tokens() <= most;
            fitted = Some(Fitted { plan, dropped });
            if fits {
                break;
            }
        }
        Ok(fitted)
    }

    fn plan(&self, session: &Session<'_>, dropped: usize) -> Result<Plan, Error> {
        Ok(self.plan_for(session, self.render(session.engine(), dropped)?))
    }

    fn plan_for(&self, session: &Session<'_>, text: ChatText) -> Plan {
        let tokenizer = session.engine().tokenizer();
        self.transcript.plan(session.tokens(), text, tokenizer)
    }

    /// Lets the oldest turns go while an answer is generated, so that it can go on; `None` if its own turn fills
    /// the context.
    ///
    /// # Errors
    /// The retained turns cannot be rendered or computed.
    pub fn make_room(&mut self, session: &mut Session<'_>) -> Result<Option<TurnReport>, Error> {
        let before = self.history.dropped();
        let n_ctx = session.engine().n_ctx();
        let prompt = self.transcript.tokens();
        let generated = session.tokens().get(prompt..).unwrap_or_default().to_vec();
        let whole = Fitted {
            plan: Plan::keeping(self.transcript.clone()),
            dropped: before,
        };
        let most = n_ctx.saturating_sub(n_ctx / 8 + generated.len());
        let fitted = self.drop_turns(session, &whole, most)?;
        let gains = |fitted: &Fitted| fitted.plan.prompt.tokens() < prompt;
        let Some(Fitted { plan, dropped }) = fitted.filter(gains) else {
            return Ok(None);
        };
        let report = TurnReport {
            prefilled: plan.rest.len(),
            reused: 0,
            dropped_turns: dropped - before,
            shifted: plan.removed.is_some(),
        };
        self.transcript = plan.prompt;
        match plan.removed {
            Some(removed) => shift(session, removed)?,
            None => {
                session.truncate(plan.kept);
                session.prefill(&plan.rest)?;
                let at_once = session.engine().max_logits();
                for chunk in generated.chunks(at_once) {
                    session.verify(chunk)?;
                }
            }
        }
        self.history.set_dropped(dropped);
        self.shifts += 1;
        self.prefilled += report.prefilled;
        Ok(Some(report))
    }

    /// Makes the transcript that of the session, whose last tokens are those of the last answer or of a prompt
    /// that was broken off.
    pub fn settle(&mut self, session: &mut Session<'_>) {
        let answer = self.history.answer().unwrap_or_default();
        let tokenizer = session.engine().tokenizer();
        self.transcript.settle(session.tokens(), answer, tokenizer);
        session.truncate(self.transcript.tokens());
    }

    fn render(&self, engine: &Engine, dropped: usize) -> Result<ChatText, Error> {
        let context = self.history.prompt(dropped);
        Ok(render_chat(
            engine.tokenizer(),
            engine.template(),
            context,
            &self.now,
        )?)
    }
}

/// Takes tokens out of a session. If that fails it ends before them, as what is to remain of its transcript does.
fn shift(session: &mut Session<'_>, removed: Range<usize>) -> Result<(), Error> {
    let start = removed.start;
    let shifted = session.shift(removed);
    if shifted.is_err() {
        session.truncate(start);
    }
    shifted
}
