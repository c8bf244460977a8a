/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enter.c - run a command on a host of a test cluster: in the namespaces, and below the root folder, of its first
 * process.
 *
 *   enter [-c] [-s] [-u UID:GID] [-d DIR] PID START COMMAND ARG...
 *
 * PID and START are the host's first process and its start time, in clock ticks since the machine was booted (the 22nd
 * field of /proc/PID/stat): process ids are used again. The command ends when this process does, whatever has ended it,
 * and gets the signals HUP, TERM, USR1 and USR2 that are sent to this process. Nothing else of it is changed but:
 *
 *   -s          it is in a session of its own, and gets INT and QUIT, too. Without this the keyboard sends them
 *   -u UID:GID  it runs as this user, in this group only
 *   -d DIR      it begins in this folder, not in that of the host's first process
 *   -c          this process ends with 128 + N when the command ends by signal N, not by that signal
 *
 * The exit status is the command's; 127 when it is not there, 126 when it cannot be run, 125 when the host is down or
 * cannot be entered.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80 /* Linux 5.6; glibc 2.31 does not have it */
#endif

#define NOT_ENTERED 125

struct how {
	bool code, session, user;
	uid_t uid;
	gid_t gid;
	const char *dir;
	pid_t pid;
	unsigned long long start;
	char **command;
};

static _Noreturn void usage(void)
{
	errx(NOT_ENTERED, "usage: enter [-c] [-s] [-u UID:GID] [-d DIR] PID START COMMAND ARG...");
}

static struct how parse(int argc, char **argv)
{
	struct how how = {0};
	int opt;

	while ((opt = getopt(argc, argv, "+csu:d:")) != -1)
		switch (opt) {
		case 'c':
			how.code = true;
			break;
		case 's':
			how.session = true;
			break;
		case 'u':
			if (sscanf(optarg, "%u:%u", &how.uid, &how.gid) != 2)
				usage();
			how.user = true;
			break;
		case 'd':
			how.dir = optarg;
			break;
		default:
			usage();
		}
	if (argc - optind < 3 || sscanf(argv[optind], "%d", &how.pid) != 1 ||
	    sscanf(argv[optind + 1], "%llu", &how.start) != 1)
		usage();
	how.command = argv + optind + 2;
	return how;
}

/* The name in /proc/PID/stat may hold anything, blanks and brackets, too. */
static bool is_alive(const struct how *how)
{
	char path[64], text[1024], state;
	unsigned long long start;
	const char *rest;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)how->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
	rest = strrchr(text, ')');
	return rest &&
	       sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
		      &start) == 2 &&
	       state != 'Z' && state != 'X' && start == how->start;
}

static int open_of(const struct how *how, const char *what)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)how->pid, what);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		err(NOT_ENTERED, "%s", path);
	return fd;
}

/* Only children of this process will be in the host's process namespace. */
static void enter(const struct how *how)
{
	const int clock = access("/proc/self/ns/time", F_OK) == 0 ? CLONE_NEWTIME : 0;
	int host = (int)syscall(SYS_pidfd_open, how->pid, 0), root, folder;

	if (host < 0 || !is_alive(how))
		exit(NOT_ENTERED);
	root = open_of(how, "root");
	folder = open_of(how, "cwd");
	if (setns(host, CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWCGROUP |
				clock) != 0)
		err(NOT_ENTERED, "setns");
	if (fchdir(root) != 0 || chroot(".") != 0 || fchdir(folder) != 0)
		err(NOT_ENTERED, "cannot change to the root folder of the host");
	close(host);
	close(root);
	close(folder);
}

static _Noreturn void run(const struct how *how, const sigset_t *mask)
{
	if (how->session)
		setsid();
	if (how->user && (setgroups(1, &how->gid) != 0 || setresgid(how->gid, how->gid, how->gid) != 0 ||
			  setresuid(how->uid, how->uid, how->uid) != 0))
		err(NOT_ENTERED, "cannot become user %u", how->uid);
	/* The parent is outside of the namespace, where its id is 0; a new one would be in it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != 0)
		_exit(NOT_ENTERED);
	if (how->dir && chdir(how->dir) != 0)
		err(NOT_ENTERED, "%s", how->dir);
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(how->command[0], how->command);
	err(errno == ENOENT ? 127 : 126, "%s", how->command[0]);
}

/* The command's status from waitpid(2), when it has ended. */
static int wait_for(pid_t pid, const sigset_t *signals)
{
	int status, sig;

	for (;;) {
		sig = sigwaitinfo(signals, NULL);
		if (sig == SIGCHLD && waitpid(pid, &status, WNOHANG) == pid)
			return status;
		if (sig > 0 && sig != SIGCHLD)
			kill(pid, sig);
	}
}

int main(int argc, char **argv)
{
	struct how how = parse(argc, argv);
	sigset_t signals, mask;
	struct sigaction old;
	int status;
	pid_t pid;

	enter(&how);
	/* From here on signals wait until they can be passed on. One that is ignored never comes. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	if (how.session) {
		/* A shell lets what it starts in the background ignore them. */
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		sigaddset(&signals, SIGINT);
		sigaddset(&signals, SIGQUIT);
	} else {
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
	}
	if (sigaction(SIGCHLD, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
		signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &signals, &mask);
	pid = fork();
	if (pid < 0)
		err(NOT_ENTERED, "fork");
	if (pid == 0)
		run(&how, &mask);
	status = wait_for(pid, &signals);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (!how.code) {
		signal(WTERMSIG(status), SIG_DFL);
		sigprocmask(SIG_SETMASK, &mask, NULL);
		kill(getpid(), WTERMSIG(status));
	}
	return 128 + WTERMSIG(status);
}
