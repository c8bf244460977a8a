/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rv_mesh PORT RANKS BYTES LIMIT - the requests that a full mesh of Gloo contexts makes, in one process (mesh.h).
 * BYTES 0 means the real size, 136 * (RANKS - 1).
 *
 * Prints "seconds requests 404s MB finished%". Stops after LIMIT seconds; finished% is the part of the requests
 * that was made.
 */
#include "mesh.h"

int main(int argc, char **argv)
{
	struct mesh m = {0};
	double begun, part;

	if (argc != 5) {
		fputs("usage: rv_mesh PORT RANKS BYTES LIMIT\n", stderr);
		return 2;
	}
	m.port = (uint16_t)atoi(argv[1]);
	m.total = m.n = atoi(argv[2]);
	m.body_len = strtoull(argv[3], NULL, 10);
	begun = rv_now();
	mesh_start(&m);
	part = mesh_run(&m, atof(argv[4]));
	printf("%.3f %llu %llu %.1f %.1f\n", rv_now() - begun, (unsigned long long)m.requests,
	       (unsigned long long)m.missing, (double)m.bytes / 1e6, part);
	mesh_end(&m);
	return 0;
}
