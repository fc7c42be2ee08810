/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libacl_op_compiler.so: operators. The PyTorch adapter is linked with it, and looks functions up by name in it. */
