/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libruntime.so: the name under which programs link the rt* functions, which libascendcl.so has. Nothing of its own. */
