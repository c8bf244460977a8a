/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_frame.h - frames around ranks' output that a launcher reads through srun --label.
 *
 * srun may break a line anywhere, and puts a newline and a label at the break. So a rank shim escapes the newlines that
 * the rank wrote (HVD_FRAME_ESC and a letter), and marks begin and end of the framed text. Within the frame the
 * launcher ignores every newline that is not escaped. Text outside of a frame has not passed through a shim.
 * agent/output.c writes frames, launcher/start/output_mux.c reads them. Both are of one release, and nothing else uses
 * the format.
 */
#ifndef HVD_OUTPUT_FRAME_H
#define HVD_OUTPUT_FRAME_H

#define HVD_FRAME_ESC '\x10'
/* The letter behind ESC. Any other byte stands for ESC itself. */
#define HVD_FRAME_LF    'n' /* a newline that the rank wrote */
#define HVD_FRAME_CR    'r' /* a carriage return that the rank wrote */
#define HVD_FRAME_BEGIN 'b'
#define HVD_FRAME_END   'e'

/* Bytes. Shim and launcher pass a longer line on in pieces, with or without frames. */
#define HVD_FRAME_LINE (16 * 1024 * 1024)

#endif
