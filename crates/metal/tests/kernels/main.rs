//! The kernels on the software device: values against scalar references, no reports, the same bits in
//! every order of threads, and no barrier that could be left out.

#![cfg(target_os = "linux")]

mod agreement;
mod attention;
mod barriers;
mod costs;
mod elementwise;
mod flash_decode;
mod flash_prefill;
mod fused_ffn;
mod fused_matmul;
mod fused_qkv;
mod fused_reads;
mod gemm;
mod kv;
mod kv_rotate;
mod kv_stage;
mod launch;
mod layout;
#[path = "../log/mod.rs"]
mod log;
mod matvec;
mod matvec_batch;
mod norm;
mod refused;
mod rope;
mod rows;
mod split_attention;
mod stage;
mod three_pass;
mod touch;
mod values;
mod weights;
