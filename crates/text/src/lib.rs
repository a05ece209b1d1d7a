//! Tokenizers, chat templates and incremental detokenization from GGUF.
