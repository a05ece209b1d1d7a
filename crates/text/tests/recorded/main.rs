//! Tests against values that other programs computed, and properties of whole vocabularies.

mod tokenize;
mod vocabularies;
