/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh.c - a stand-in for ssh and sshd between the hosts of a test cluster: a TCP connection over eth0, without keys and
 * encryption. It starts a command within milliseconds, and OpenSSH need not be installed.
 *
 *   ssh [OPTION...] [--] HOST COMMAND...   the client
 *   standin-sshd                           the server of a host: a daemon of root's at port 22
 *
 * Both are this program, by its name. Of ssh's options only those are known that hvdrun and Open MPI give; another one
 * is refused, as are words that ssh would take for an option. For what is known, the client behaves as ssh does: its
 * standard input, output and error are those of the command; its exit status is the command's, and 255 when the command
 * was killed, when the connection was lost, or when the client was ended by a signal. The server behaves as sshd does
 * for a command without a terminal: it runs in a session of its own, with the environment of a login and with pipes,
 * and the connection stays until nobody holds the pipes any longer. When the client has gone the pipes are closed, and
 * nothing else happens to the command.
 *
 * A user is known by a word that only he and root can read, in the file TOKENS/USER; TOKENS is set when this is compiled.
 *
 * The connection: the client sends a struct request and the command, then blocks of standard input, each behind its
 * length; a length of 0 is the end of input. The server sends blocks, each behind a struct block.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED      255
#define COMMAND_MAX (1 << 20)

enum {
	REFUSED,
	OUTPUT,
	ERRORS,
	STATUS
};

struct request {
	char user[32], token[64];
	uint32_t length; /* of the command */
};

struct block {
	uint32_t kind, length;
};

static bool read_all(int fd, void *data, size_t n)
{
	for (char *at = data; n > 0;) {
		ssize_t got = read(fd, at, n);

		if (got <= 0 && !(got < 0 && errno == EINTR))
			return false;
		if (got > 0)
			at += got, n -= (size_t)got;
	}
	return true;
}

static bool write_all(int fd, const void *data, size_t n)
{
	for (const char *at = data; n > 0;) {
		ssize_t put = write(fd, at, n);

		if (put < 0 && errno != EINTR)
			return false;
		if (put > 0)
			at += put, n -= (size_t)put;
	}
	return true;
}

/* The user's word, "" when there is none that this process may read. */
static void read_token(const char *user, char token[64])
{
	char path[sizeof(TOKENS) + 64];
	int fd;

	memset(token, 0, 64);
	snprintf(path, sizeof(path), "%s/%s", TOKENS, user);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, token, 63) < 0)
		token[0] = '\0';
	if (fd >= 0)
		close(fd);
}

/* ---- client ---- */

struct call {
	const char *host, *port;
	char *command;
	int timeout;
};

static _Noreturn void usage(const char *word)
{
	fprintf(stderr, "ssh (stand-in): hvdrun does not say %s\n", word);
	exit(FAILED);
}

static void config(struct call *call, const char *word)
{
	static const char *const known[] = {"BatchMode=yes", "ClearAllForwardings=yes", "ControlMaster=no",
					    "RemoteCommand=none", "StrictHostKeyChecking=no"};

	if (sscanf(word, "ConnectTimeout=%d", &call->timeout) == 1)
		return;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(word, known[i]) == 0)
			return;
	usage(word);
}

static struct call parse(int argc, char **argv)
{
	struct call call = {.port = "22"};
	size_t length = 1;
	int opt;

	opterr = 0;
	while ((opt = getopt(argc, argv, "+Taxo:p:")) != -1)
		switch (opt) {
		case 'T':
		case 'a':
		case 'x':
			break;
		case 'o':
			config(&call, optarg);
			break;
		case 'p':
			call.port = optarg;
			break;
		default:
			usage(argv[optind - 1]);
		}
	if (argc - optind < 2)
		usage("nothing");
	call.host = argv[optind++];
	/* ssh takes options behind the host as well. */
	if (argv[optind][0] == '-')
		usage(argv[optind]);
	for (int i = optind; i < argc; i++)
		length += strlen(argv[i]) + 1;
	call.command = calloc(1, length);
	if (!call.command)
		err(FAILED, "calloc");
	for (int i = optind; i < argc; i++) {
		strcat(call.command, i > optind ? " " : "");
		strcat(call.command, argv[i]);
	}
	return call;
}

static int reach(const struct call *call)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	struct timeval within = {.tv_sec = call->timeout};
	int rc = getaddrinfo(call->host, call->port, &hints, &found), fd;

	if (rc != 0) {
		fprintf(stderr, "ssh: Could not resolve hostname %s: %s\r\n", call->host, gai_strerror(rc));
		exit(FAILED);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* The time also limits connect(). */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &within, sizeof(within));
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
		errno = errno == EINPROGRESS ? ETIMEDOUT : errno;
		fprintf(stderr, "ssh: connect to host %s port %s: %m\r\n", call->host, call->port);
		exit(FAILED);
	}
	freeaddrinfo(found);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0}, sizeof(struct timeval));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

static void *send_input(void *arg)
{
	int fd = *(int *)arg;
	char data[65536];
	uint32_t length;
	ssize_t n;

	do {
		n = read(STDIN_FILENO, data, sizeof(data));
		if (n < 0 && errno == EINTR)
			continue;
		length = n > 0 ? (uint32_t)n : 0;
		if (!write_all(fd, &length, sizeof(length)) || !write_all(fd, data, length))
			break;
	} while (n != 0 && length > 0);
	return NULL;
}

static void on_signal(int sig)
{
	(void)sig;
	_exit(FAILED);
}

static int receive(const struct call *call, int fd)
{
	char data[65536];
	struct block block;

	while (read_all(fd, &block, sizeof(block)) && block.length <= sizeof(data) &&
	       read_all(fd, data, block.length)) {
		if (block.kind == REFUSED) {
			fprintf(stderr, "%s@%s: Permission denied (publickey).\r\n", getpwuid(getuid())->pw_name,
				call->host);
			return FAILED;
		}
		if (block.kind == STATUS)
			return (unsigned char)data[0];
		write_all(block.kind == OUTPUT ? STDOUT_FILENO : STDERR_FILENO, data, block.length);
	}
	fprintf(stderr, "Connection to %s closed by remote host.\r\n", call->host);
	return FAILED;
}

static int client(int argc, char **argv)
{
	static const int ends[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	struct call call = parse(argc, argv);
	const struct passwd *user = getpwuid(getuid());
	struct request request = {.length = (uint32_t)strlen(call.command)};
	int fd = reach(&call);
	pthread_t thread;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (signal(ends[i], on_signal) == SIG_IGN)
			signal(ends[i], SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (!user)
		errx(FAILED, "No user exists for uid %u", getuid());
	snprintf(request.user, sizeof(request.user), "%s", user->pw_name);
	read_token(request.user, request.token);
	write_all(fd, &request, sizeof(request));
	write_all(fd, call.command, request.length);
	if (pthread_create(&thread, NULL, send_input, &fd) != 0)
		err(FAILED, "pthread_create");
	return receive(&call, fd);
}

/* ---- server: the connection is descriptor 0 of a session ---- */

struct session {
	pid_t command;
	int in, out, errors; /* our ends of its pipes */
};

static bool say(uint32_t kind, const void *data, size_t n)
{
	struct block block = {kind, (uint32_t)n};

	return write_all(STDIN_FILENO, &block, sizeof(block)) && write_all(STDIN_FILENO, data, n);
}

static _Noreturn void become(const struct passwd *user, char *command, int pipes[3][2])
{
	char *shell = user->pw_shell, *slash = strrchr(shell, '/');
	char home[512], name[64], logname[64], sh[512];
	char *env[] = {name,
		       logname,
		       home,
		       "PATH=/usr/local/bin:/usr/bin:/bin:/usr/games",
		       sh,
		       "SSH_CLIENT=standin 0 22",
		       "SSH_CONNECTION=standin 0 standin 22",
		       NULL};

	snprintf(name, sizeof(name), "USER=%s", user->pw_name);
	snprintf(logname, sizeof(logname), "LOGNAME=%s", user->pw_name);
	snprintf(home, sizeof(home), "HOME=%s", user->pw_dir);
	snprintf(sh, sizeof(sh), "SHELL=%s", shell);
	setsid();
	dup2(pipes[0][0], 0);
	dup2(pipes[1][1], 1);
	dup2(pipes[2][1], 2);
	close_range(3, ~0U, 0);
	signal(SIGPIPE, SIG_DFL);
	if (initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
		err(1, "cannot become user %s", user->pw_name);
	if (chdir(user->pw_dir) != 0)
		fprintf(stderr, "Could not chdir to home directory %s: %m\n", user->pw_dir);
	execve(shell, (char *[]){slash ? slash + 1 : shell, "-c", command, NULL}, env);
	err(1, "%s", shell);
}

static struct session begin(const struct passwd *user, char *command)
{
	struct session s = {0};
	int pipes[3][2];

	for (int i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC) != 0)
			err(1, "pipe");
	s.command = fork();
	if (s.command < 0)
		err(1, "fork");
	if (s.command == 0)
		become(user, command, pipes);
	close(pipes[0][0]);
	close(pipes[1][1]);
	close(pipes[2][1]);
	s.in = pipes[0][1], s.out = pipes[1][0], s.errors = pipes[2][0];
	return s;
}

/* When the client has gone this process ends, and the pipes are closed. */
static void *take_input(void *arg)
{
	const struct session *s = arg;
	char data[65536];
	uint32_t length;
	int in = s->in;

	while (read_all(STDIN_FILENO, &length, sizeof(length)) && length <= sizeof(data) &&
	       read_all(STDIN_FILENO, data, length))
		if ((length == 0 || !write_all(in, data, length)) && in >= 0) {
			close(in);
			in = -1;
		}
	_exit(1);
}

static void pass_output(const struct session *s)
{
	struct pollfd from[] = {{.fd = s->out, .events = POLLIN},
				{.fd = s->errors, .events = POLLIN},
				{.fd = STDIN_FILENO, .events = POLLRDHUP}};
	char data[65536];

	while (from[0].fd >= 0 || from[1].fd >= 0) {
		if (poll(from, 3, -1) < 0)
			continue;
		if (from[2].revents)
			_exit(1);
		for (uint32_t i = 0; i < 2; i++) {
			ssize_t n = from[i].fd >= 0 && from[i].revents ? read(from[i].fd, data, sizeof(data)) : -2;

			if (n > 0 && !say(OUTPUT + i, data, (size_t)n))
				_exit(1);
			if (n == 0 || n == -1)
				from[i].fd = -1;
		}
	}
}

static int session(void)
{
	struct request request;
	struct session s;
	char *command, token[64];
	const struct passwd *user;
	pthread_t thread;
	unsigned char code;
	int status;

	prctl(PR_SET_NAME, "standin-session");
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	if (!read_all(STDIN_FILENO, &request, sizeof(request)) || request.length > COMMAND_MAX)
		return 1;
	request.user[sizeof(request.user) - 1] = '\0';
	command = calloc(1, request.length + 1);
	if (!command || !read_all(STDIN_FILENO, command, request.length))
		return 1;
	user = strchr(request.user, '/') ? NULL : getpwnam(request.user);
	read_token(request.user, token);
	if (!user || !token[0] || memcmp(token, request.token, sizeof(token)) != 0) {
		say(REFUSED, "", 0);
		return 1;
	}
	s = begin(user, command);
	if (pthread_create(&thread, NULL, take_input, &s) != 0)
		return 1;
	pass_output(&s);
	while (waitpid(s.command, &status, 0) < 0 && errno == EINTR)
		;
	code = WIFEXITED(status) ? (unsigned char)WEXITSTATUS(status) : FAILED;
	say(STATUS, &code, 1);
	/* The client closes the connection when it has read that. Input that is unread when this side closes it would make
	 * the kernel reset it. */
	pthread_join(thread, NULL);
	return 0;
}

static int server(const char *self)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(22)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof(any)) != 0 || listen(listener, 128) != 0)
		err(1, "port 22");
	if (daemon(0, 0) != 0)
		err(1, "daemon");
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd >= 0 && fork() == 0) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
			dup2(fd, STDIN_FILENO);
			execl(self, "standin-session", NULL);
			_exit(1);
		}
		if (fd >= 0)
			close(fd);
	}
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];

	if (strcmp(name, "standin-session") == 0)
		return session();
	if (strcmp(name, "standin-sshd") == 0)
		return server(argv[0]);
	return client(argc, argv);
}
