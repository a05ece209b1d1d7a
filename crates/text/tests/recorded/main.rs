//! Tests against values that other programs computed, and properties of whole vocabularies.

mod chat;
mod prompt;
mod properties;
mod tokenize;
mod vocabularies;
