//! Conversations: what each turn computes, and what the context holds afterwards.

mod model;
mod turns;
