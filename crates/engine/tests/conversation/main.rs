//! Conversations: what each turn computes, and what the context holds afterwards.

mod model;
mod overflow;
mod saved;
mod shifted_rows;
mod turns;
