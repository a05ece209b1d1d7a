//! Writing of GGUF files.
