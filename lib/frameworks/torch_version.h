/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_version.h - which PyTorch a Python has, as its files show it: in PYTHONPATH, among the user's modules, in its own
 * site-packages. Nothing is executed. Nothing is known of a PyTorch that a .pth file adds.
 */
#ifndef HVD_TORCH_VERSION_H
#define HVD_TORCH_VERSION_H

#define HVD_TORCH(major, minor) ((unsigned)(major)*1000U + (unsigned)(minor))

/* The version where this Python (a path) looks for modules, in its order, as HVD_TORCH(); a prerelease of X.Y is the
 * release before. 0: unknown. `envp` is NULL-terminated. */
unsigned hvd_torch_of_python(const char *python, char *const *envp);

/* The version in the text of torch/version.py, as above. Untrusted input is fine. */
unsigned hvd_torch_version_parse(const char *text);

#endif
