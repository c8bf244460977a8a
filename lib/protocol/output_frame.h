/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_frame.h - framed output: how shims write lines for a launcher that reads srun --label.
 *
 * srun may break a line anywhere, and puts an end and a label of its own there: so the ends of lines that are ours are
 * escaped, and between BEGIN and END those that are not say nothing. What is outside has not come through a shim.
 * task/output.c writes it, launcher/run/output_mux.c reads it; the format is this suite's own.
 */
#ifndef HVD_OUTPUT_FRAME_H
#define HVD_OUTPUT_FRAME_H

#define HVD_FRAME_ESC   '\x10'
#define HVD_FRAME_LF    'n' /* after ESC: the end of a line */
#define HVD_FRAME_CR    'r' /* … by a carriage return */
#define HVD_FRAME_BEGIN 'b'
#define HVD_FRAME_END   'e' /* anything else: ESC itself */

/* A line of so many bytes is passed on in pieces, framed or not, at both ends. */
#define HVD_FRAME_LINE (16 * 1024 * 1024)

#endif
