/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle_opcode.h - the opcodes of Python's pickle format that hvd reads or writes, with the names that pickletools
 * gives them.
 */
#ifndef HVD_PICKLE_OPCODE_H
#define HVD_PICKLE_OPCODE_H

enum hvd_pickle_opcode {
	HVD_OP_MARK = '(',
	HVD_OP_EMPTY_TUPLE = ')',
	HVD_OP_STOP = '.',
	HVD_OP_SHORT_BINBYTES = 'C',
	HVD_OP_BININT = 'J',
	HVD_OP_BININT1 = 'K',
	HVD_OP_BININT2 = 'M',
	HVD_OP_NONE = 'N',
	HVD_OP_REDUCE = 'R',
	HVD_OP_EMPTY_LIST = ']',
	HVD_OP_APPEND = 'a',
	HVD_OP_BUILD = 'b',
	HVD_OP_APPENDS = 'e',
	HVD_OP_BINGET = 'h',
	HVD_OP_LONG_BINGET = 'j',
	HVD_OP_SETITEM = 's',
	HVD_OP_TUPLE = 't',
	HVD_OP_SETITEMS = 'u',
	HVD_OP_EMPTY_DICT = '}',
	HVD_OP_PROTO = 0x80,
	HVD_OP_NEWOBJ = 0x81,
	HVD_OP_TUPLE1 = 0x85,
	HVD_OP_TUPLE2 = 0x86,
	HVD_OP_TUPLE3 = 0x87,
	HVD_OP_NEWTRUE = 0x88,
	HVD_OP_NEWFALSE = 0x89,
	HVD_OP_LONG1 = 0x8a,
	HVD_OP_SHORT_BINUNICODE = 0x8c,
	HVD_OP_STACK_GLOBAL = 0x93,
	HVD_OP_MEMOIZE = 0x94,
	HVD_OP_FRAME = 0x95,
};

#endif
