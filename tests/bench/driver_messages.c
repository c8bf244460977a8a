/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_messages - what a launch costs the driver without connections, for more hosts than there are descriptors.
 *
 *   driver_messages [-r RANKS] [HOSTS…]     default: 1 rank on each host; 2000 10000 30000 hosts
 *
 * Each host's registration and report is read from a signed frame, each order to probe and each plan is written as one.
 * Sockets, the event loop and the handshake are left out; bench_driver has them. Printed are the CPU milliseconds for
 * each host and step of the driver's calls alone, the CPU seconds of all of them, and the peak of memory for each host.
 */
#include "launcher/world/rank_plan.h"
#include "lib/protocol/wire.h"
#include "sim_host.h"
#include "tests/unit/wire_decode.h"

#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum step {
	REGISTER,
	ORDER,
	REPORT,
	DECIDE,
	PLAN,
	N_STEPS
};

struct bench {
	uint32_t n, ranks;
	struct hvd_wire driver, agent;
	struct hvd_host_table table;
	json_t **addrs; /* by host, for orders */
	double cpu[N_STEPS], began;
	double frames; /* bytes that the driver has written */
};

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void begin(struct bench *b)
{
	b->began = cpu_now();
}

static void end(struct bench *b, enum step step)
{
	b->cpu[step] += cpu_now() - b->began;
}

static void check(bool held, const struct hvd_err *err)
{
	if (held)
		return;
	fprintf(stderr, "driver_messages: %s\n", err->msg);
	exit(1);
}

/* A message as the other side gets it: a frame, which the caller frees. Takes the message. */
static unsigned char *frame(struct hvd_wire *wire, json_t *msg, size_t *len)
{
	struct hvd_err err = {0};
	unsigned char *bytes = NULL;

	check(hvd_wire_encode(wire, msg, &bytes, len, &err) == 0, &err);
	json_decref(msg);
	return bytes;
}

static json_t *message(struct hvd_wire *wire, const unsigned char *bytes, size_t len)
{
	struct hvd_err err = {0};
	json_t *msg = NULL;
	size_t used;

	check(wire_decode(wire, bytes, len, &used, &msg, &err) == 1, &err);
	return msg;
}

static void take_registration(struct bench *b, uint32_t host)
{
	struct hvd_err err = {0};
	uint32_t index = 0;
	size_t len;
	unsigned char *bytes = frame(&b->agent, sim_registration(host, b->n, b->ranks), &len);
	json_t *msg;

	begin(b);
	msg = message(&b->driver, bytes, len);
	check(hvd_host_table_register(&b->table, msg, &index, &err) == 0 &&
		      hvd_host_table_restrict(&b->table, index, NULL, &err) == 0,
	      &err);
	json_decref(msg);
	end(b, REGISTER);
	free(bytes);
}

static void order(struct bench *b, const uint32_t *hosts, uint32_t host)
{
	unsigned char *bytes;
	size_t len;

	begin(b);
	hvd_host_table_enter(&b->table, host, HVD_STAGE_PROBING);
	bytes = frame(&b->driver, hvd_probe_order(&b->table, hosts, b->n, host, 2000, false, b->addrs), &len);
	end(b, ORDER);
	b->frames += (double)len;
	free(bytes);
}

static void report(struct bench *b, uint32_t host)
{
	json_t *targets = json_array(), *told, *msg;
	uint32_t to[HVD_MAX_NEIGHBOURS];
	struct hvd_err err = {0};
	unsigned char *bytes;
	size_t len;
	int n = hvd_network_neighbours(host, b->n, to);

	for (int i = 0; i < n; i++)
		json_array_append_new(targets, json_pack("{s:I}", "n", (json_int_t)to[i]));
	told = json_pack("{s:o}", "targets", targets);
	bytes = frame(&b->agent, sim_report(told), &len);
	json_decref(told);
	begin(b);
	msg = message(&b->driver, bytes, len);
	check(hvd_host_table_report(&b->table, host, msg, &err) == 0, &err);
	json_decref(msg);
	end(b, REPORT);
	free(bytes);
}

static void send_plan(struct bench *b, const struct hvd_rank_plan *plan, uint32_t host)
{
	json_t *ranks = json_array();
	unsigned char *bytes;
	size_t len;

	begin(b);
	for (uint32_t r = 0; r < b->ranks; r++)
		json_array_append_new(ranks, hvd_rank_plan_env(plan, b->table.hosts[host].node.ranks[r]));
	bytes = frame(
		&b->driver,
		json_pack("{s:s, s:o, s:o}", "t", "plan", "ranks", ranks, "relay", hvd_rank_plan_relay(plan, host)),
		&len);
	end(b, PLAN);
	b->frames += (double)len;
	free(bytes);
}

static void run(struct bench *b)
{
	static const struct hvd_launch_spec spec = {.frameworks = HVD_FW_AUTO, .relay_fan_out = HVD_RELAY_FAN_OUT};
	struct hvd_driver_opts opts = {.spec = &spec, .hosts = b->n, .ranks = b->n * b->ranks};
	struct hvd_log log = hvd_log_make("driver_messages", HVD_LOG_WARN);
	static const struct hvd_key key = {"0123456789abcdef0123456789abcde"};
	struct hvd_network_plan networks = {0};
	struct hvd_rank_plan plan = {.opts = &opts, .table = &b->table, .networks = &networks, .run_id = "bench"};
	uint32_t *hosts = hvd_xcalloc(b->n, sizeof(*hosts));
	struct hvd_err err = {0};

	hvd_wire_init(&b->driver, true);
	hvd_wire_init(&b->agent, false);
	hvd_wire_set_key(&b->driver, &key);
	hvd_wire_set_key(&b->agent, &key);
	hvd_host_table_init(&b->table, b->n, b->n * b->ranks);
	for (uint32_t h = 0; h < b->n; h++) {
		hosts[h] = h;
		take_registration(b, h);
	}
	b->addrs = hvd_xcalloc(b->n, sizeof(*b->addrs));
	for (uint32_t h = 0; h < b->n; h++)
		order(b, hosts, h);
	for (uint32_t h = 0; h < b->n; h++)
		json_decref(b->addrs[h]);
	free(b->addrs);
	for (uint32_t h = 0; h < b->n; h++)
		report(b, h);
	begin(b);
	check(hvd_network_plan_make(&networks, &b->table, true, &log, &err) == 0 &&
		      hvd_host_table_layout(&b->table, &plan.layout, &err) == 0,
	      &err);
	hvd_relays_make(&plan.relays, 0, &opts, &b->table, &log);
	hvd_host_table_forget_edges(&b->table);
	end(b, DECIDE);
	for (uint32_t h = 0; h < b->n; h++)
		send_plan(b, &plan, h);
}

/* Run in a new process, which ends with it. */
static void measure(uint32_t n, uint32_t ranks)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct bench b = {.n = n, .ranks = ranks};
		long before = sim_peak_kib();
		double sum = 0;

		run(&b);
		printf("%8u", n);
		for (int s = 0; s < N_STEPS; s++) {
			printf(" %10.4f", b.cpu[s] * 1e3 / n);
			sum += b.cpu[s];
		}
		printf(" %8.3f %12.0f %10.0f\n", sum, (double)(sim_peak_kib() - before) * 1024 / n, b.frames / n);
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {"2000", "10000", "30000", NULL};
	const char *const *hosts = usual;
	uint32_t ranks = 1;

	if (argc > 2 && strcmp(argv[1], "-r") == 0) {
		ranks = (uint32_t)atoi(argv[2]);
		argc -= 2;
		argv += 2;
	}
	if (argc > 1)
		hosts = (const char *const *)argv + 1;
	printf("%8s %10s %10s %10s %10s %10s %8s %12s %10s\n", "hosts", "register", "order", "report", "decide",
	       "plan ms", "all s", "memory/host", "sent/host");
	fflush(stdout);
	for (; *hosts; hosts++)
		measure((uint32_t)atoi(*hosts), ranks);
	return 0;
}
