/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libge_runner.so: the graph engine. The PyTorch adapter is linked with it. */
