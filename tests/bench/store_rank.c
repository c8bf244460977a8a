/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_rank.c - a rank that meets the others at a launch's TCPStore, as PyTorch's Gloo does, and imports nothing.
 *
 * It comes to the store, publishes an address, waits for those of all ranks, and reads them in one request. The
 * environment is that of torch.distributed's init_method env://. Messages: PyTorch,
 * torch/csrc/distributed/c10d/TCPStore*.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum query {
	VALIDATE = 0,
	SET = 1,
	ADD = 4,
	WAIT = 6,
	MULTI_GET = 10,
	PING = 13
};
enum {
	MAGIC = 0x3C85F7CE,
	ADDRESS_SIZE = 200,
	KEY_MAX = 64
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long number(const char *name)
{
	const char *text = getenv(name);

	if (text)
		return strtol(text, NULL, 10);
	fprintf(stderr, "store_rank: %s is not set\n", name);
	exit(2);
}

static int reach_store(void)
{
	struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
	const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
	int fd, one = 1;

	if (!host || !port || getaddrinfo(host, port, &hints, &found) != 0) {
		fprintf(stderr, "store_rank: MASTER_ADDR and MASTER_PORT are no address\n");
		exit(2);
	}
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0)
		die("store_rank: connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(found);
	return fd;
}

/* A request that is made up in a FILE of memory, in this host's byte order. */
static void put(FILE *to, const void *bytes, size_t size)
{
	if (fwrite(bytes, 1, size, to) != size)
		die("store_rank: a request");
}

static void put_query(FILE *to, enum query query)
{
	putc((int)query, to);
}

static void put_u64(FILE *to, uint64_t value)
{
	put(to, &value, sizeof(value));
}

static void put_key(FILE *to, const char *prefix, long rank)
{
	char key[KEY_MAX];
	int len =
		rank < 0 ? snprintf(key, sizeof(key), "%s", prefix) : snprintf(key, sizeof(key), "%s%ld", prefix, rank);

	put_u64(to, (uint64_t)len);
	put(to, key, (size_t)len);
}

static void put_keys(FILE *to, enum query query, long size)
{
	put_query(to, query);
	put_u64(to, (uint64_t)size);
	for (long rank = 0; rank < size; rank++)
		put_key(to, "/default_pg/0//cpu//", rank);
}

/* Send what `request` holds, and close it. */
static void send_all(int fd, FILE *request, char **text, const size_t *size)
{
	if (fclose(request) != 0)
		die("store_rank: a request");
	for (size_t sent = 0; sent < *size;) {
		ssize_t n = send(fd, *text + sent, *size - sent, MSG_NOSIGNAL);

		if (n < 0)
			die("store_rank: send");
		sent += (size_t)n;
	}
	free(*text);
}

static void receive(int fd, void *to, size_t size)
{
	if (size && recv(fd, to, size, MSG_WAITALL) != (ssize_t)size)
		die("store_rank: recv");
}

int main(void)
{
	long rank = number("RANK"), ranks = number("WORLD_SIZE");
	uint32_t magic = MAGIC, nonce = (uint32_t)getpid(), echo;
	char address[ADDRESS_SIZE] = {0}, *text, stop;
	uint64_t length;
	int64_t count;
	size_t size;
	int fd = reach_store();
	FILE *request = open_memstream(&text, &size);

	put_query(request, VALIDATE);
	put(request, &magic, sizeof(magic));
	put_query(request, PING);
	put(request, &nonce, sizeof(nonce));
	send_all(fd, request, &text, &size);
	receive(fd, &echo, sizeof(echo));

	request = open_memstream(&text, &size);
	put_query(request, ADD);
	put_key(request, "init/", -1);
	put_u64(request, 1);
	send_all(fd, request, &text, &size);
	receive(fd, &count, sizeof(count));

	request = open_memstream(&text, &size);
	put_query(request, SET);
	put_key(request, "/default_pg/0//cpu//", rank);
	put_u64(request, sizeof(address));
	memcpy(address, &rank, sizeof(rank));
	put(request, address, sizeof(address));
	put_keys(request, WAIT, ranks);
	send_all(fd, request, &text, &size);
	receive(fd, &stop, 1);

	request = open_memstream(&text, &size);
	put_keys(request, MULTI_GET, ranks);
	send_all(fd, request, &text, &size);
	for (long other = 0; other < ranks; other++) {
		receive(fd, &length, sizeof(length));
		if (length != sizeof(address))
			break;
		receive(fd, address, sizeof(address));
		if (memcmp(address, &other, sizeof(other)) != 0)
			break;
		if (other + 1 == ranks && echo == nonce && stop == 0)
			return 0;
	}
	fprintf(stderr, "store_rank: the store's answers are wrong\n");
	return 1;
}
