/* SPDX-License-Identifier: Apache-2.0 */
/* What others may have put where a file is to be written. */
#include "lib/base/file.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>

#define STRANGER 12345 /* a user */

static char folder[64];

static const char *in(const char *name)
{
	static char path[2][128];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
	return path[turn];
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void holds(const char *path, const char *text)
{
	char is[64] = "";
	int fd = open(path, O_RDONLY);

	assert_true(read(fd, is, sizeof(is) - 1) >= 0);
	close(fd);
	assert_string_equal(is, text);
}

static void refused(const char *path, int flags, bool pipe, const char *why)
{
	struct hvd_err err = {0};

	assert_int_equal(hvd_open_written(AT_FDCWD, path, flags, pipe, 0600, &err), -1);
	assert_in(err.msg, why);
}

static int set_up(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/hvd-writefile-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

TEST(a_new_file_and_one_that_is_there)
{
	struct hvd_err err = {0};
	int fd;

	assert_int_equal(hvd_write_file(in("a"), "it", "text", 4, 0, 0600, &err), 0);
	holds(in("a"), "text");
	assert_int_equal(hvd_write_file(in("a"), "it", "x", 1, 0, 0600, &err), 0);
	holds(in("a"), "x");
	fd = hvd_open_written(AT_FDCWD, in("a"), O_APPEND, false, 0600, &err);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "y", 1), 1);
	close(fd);
	holds(in("a"), "xy");
	refused(in("a"), O_EXCL, false, "File exists");
	holds(in("a"), "xy");
	assert_int_equal(hvd_write_file(in("no/a"), "it", "x", 1, 0, 0600, &err), -1);
	assert_in(err.msg, "cannot write it ");
	assert_in(err.msg, "/no/a: No such file or directory");
	assert_int_equal(hvd_write_file("/dev/null", "it", "x", 1, 0, 0600, &err), 0);
	assert_int_equal(hvd_write_file("/dev/full", "it", "x", 1, 0, 0600, &err), -1);
	assert_in(err.msg, "No space left");
}

TEST(a_link_is_not_followed)
{
	struct hvd_err err = {0};
	int dir;

	put(in("mine"), "mine");
	assert_int_equal(symlink("mine", in("link")), 0);
	assert_int_equal(symlink("none", in("dangling")), 0);
	refused(in("link"), O_TRUNC, true, "it is a symbolic link");
	refused(in("dangling"), O_TRUNC, true, "it is a symbolic link");
	holds(in("mine"), "mine");
	assert_int_equal(access(in("none"), F_OK), -1);
	dir = open(folder, O_RDONLY | O_DIRECTORY);
	assert_int_equal(symlink(".", in("folder-link")), 0);
	assert_int_equal(hvd_open_made_dir(dir, "folder-link"), -1);
	assert_int_equal(hvd_open_made_dir(dir, "mine"), -1);
	assert_int_equal(errno, ENOTDIR);
	for (int i = 0; i < 2; i++) {
		int made = hvd_open_made_dir(dir, "made");

		assert_true(made >= 0);
		close(made);
	}
	assert_int_equal(hvd_open_written(dir, "link", 0, false, 0600, &err), -1);
	close(dir);
}

TEST(a_pipe_is_not_waited_for)
{
	struct hvd_err err = {0};
	int reader, fd;

	assert_int_equal(mkfifo(in("pipe"), 0600), 0);
	refused(in("pipe"), O_TRUNC, true, "a pipe or a socket that nobody reads");
	reader = open(in("pipe"), O_RDONLY | O_NONBLOCK);
	refused(in("pipe"), O_TRUNC, false, "it is not a regular file");
	fd = hvd_open_written(AT_FDCWD, in("pipe"), O_TRUNC, true, 0600, &err);
	assert_true(fd >= 0);
	close(fd);
	close(reader);
	refused(folder, 0, true, "Is a directory");
}

TEST(a_file_of_another_user_is_not_written)
{
	if (geteuid() != 0)
		skip_because("only root can be another user");
	put(in("bobs"), "bobs");
	assert_int_equal(chown(in("bobs"), STRANGER, STRANGER), 0);
	refused(in("bobs"), O_TRUNC, true, "it belongs to another user (12345)");
	holds(in("bobs"), "bobs");
}

/* Whoever reads has all of one text; a link is replaced; nothing is left beside the file. */
TEST(a_file_is_replaced_as_a_whole)
{
	struct hvd_err err = {0};
	struct stat st;
	int before;

	put(in("other"), "untouched");
	assert_int_equal(symlink("other", in("a")), 0);
	before = open(in("a"), O_RDONLY);
	assert_int_equal(hvd_replace_file(in("a"), "it", "first", 5, &err), 0);
	close(before);
	holds(in("other"), "untouched");
	holds(in("a"), "first");
	assert_int_equal(lstat(in("a"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);

	before = open(in("a"), O_RDONLY);
	assert_int_equal(hvd_replace_file(in("a"), "it", "second", 6, &err), 0);
	holds(in("a"), "second");
	assert_int_equal(fstat(before, &st), 0);
	assert_int_equal(st.st_size, 5);
	close(before);

	before = umask(077);
	assert_int_equal(hvd_replace_file_mode(in("a"), "it", "third", 5, 0644, &err), 0);
	umask((mode_t)before);
	holds(in("a"), "third");
	assert_int_equal(lstat(in("a"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);

	assert_int_equal(mkdir(in("folder"), 0700), 0);
	assert_int_equal(hvd_replace_file(in("folder"), "it", "x", 1, &err), -1);
	assert_in(err.msg, "cannot write it");
	assert_in(err.msg, "Is a directory");
	assert_int_equal(hvd_replace_file(in("no/a"), "it", "x", 1, &err), -1);
	assert_in(err.msg, "No such file or directory");
	snprintf(err.msg, sizeof(err.msg), "test $(ls %s | wc -l) = 3", folder);
	assert_int_equal(system(err.msg), 0);
}

RUN_TESTS(.setup = set_up, .teardown = tear_down)
