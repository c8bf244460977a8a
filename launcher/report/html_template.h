/* SPDX-License-Identifier: Apache-2.0 */
/* html_template.h - page.html, which the Makefile makes a source file of. Its bytes are ASCII. */
#ifndef HVD_HTML_TEMPLATE_H
#define HVD_HTML_TEMPLATE_H

extern const char hvd_html_template[]; /* with a zero byte behind it */

#endif
