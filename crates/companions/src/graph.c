/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libgraph.so: the graph engine's data. The PyTorch adapter is linked with it. */
