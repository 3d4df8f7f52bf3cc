//! What a tensor-parallel model must send, from its sizes alone.
