/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin asks of the Slurm that has loaded it, with this program in that Slurm's place. */
#include "spank/host_slurm.h"
#include "tests/unit/unit.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct key_pair {
	char *name, *value;
};

/* A configuration as no release has it: numbers that are no addresses, and pointers. */
struct conf {
	uint64_t number, odd;
	char *prolog, *epilog, *none;
	uint16_t *ports;
};
#ifdef __clang__
__attribute__((no_sanitize("address"))) /* which would make the symbol larger than the variable */
#endif
EXPORT struct conf slurm_conf;
EXPORT long slurm_api_version(void);
EXPORT void *slurm_ctl_conf_2_key_pairs(slurm_conf_t *conf);
EXPORT char opt;
EXPORT bool slurm_option_isset(void *options, const char *name);
EXPORT int slurm_option_set(void *options, const char *name, const char *value, bool early);

static unsigned api = 38;
static struct key_pair pairs[4];
static size_t next;
static int lists;
static char set[64];

long slurm_api_version(void)
{
	return (long)(api << 16 | 1 << 8 | 2);
}

void *slurm_ctl_conf_2_key_pairs(slurm_conf_t *conf)
{
	assert_ptr_equal(conf, &slurm_conf);
	lists++;
	return pairs;
}

EXPORT void *slurm_list_iterator_create_(void *list) __asm__("slurm_list_iterator_create");
EXPORT void *slurm_list_next_(void *at) __asm__("slurm_list_next");
EXPORT void slurm_list_iterator_destroy_(void *at) __asm__("slurm_list_iterator_destroy");
EXPORT void slurm_list_destroy_(void *list) __asm__("slurm_list_destroy");

void *slurm_list_iterator_create_(void *list)
{
	next = 0;
	return list;
}

void *slurm_list_next_(void *at)
{
	return next < sizeof(pairs) / sizeof(pairs[0]) ? (struct key_pair *)at + next++ : NULL;
}

void slurm_list_iterator_destroy_(void *at)
{
}

void slurm_list_destroy_(void *list)
{
	lists--;
}

bool slurm_option_isset(void *options, const char *name)
{
	assert_ptr_equal(options, &opt);
	return strcmp(name, "async") == 0;
}

int slurm_option_set(void *options, const char *name, const char *value, bool early)
{
	assert_ptr_equal(options, &opt);
	assert_false(early);
	if (strcmp(name, "kill-on-bad-exit") != 0)
		return -1;
	snprintf(set, sizeof(set), "%s=%s", name, value);
	return 0;
}

static int configure(void **state)
{
	slurm_conf = (struct conf){.number = 60001, .odd = UINT64_MAX - 8, .epilog = (char *)"/site/epilog"};
	slurm_conf.prolog = (char *)"/site/prolog";
	memcpy(pairs,
	       (struct key_pair[]){{(char *)"AuthType", (char *)"auth/slurm"},
				   {(char *)"Nothing", NULL},
				   {(char *)"SrunPortRange", (char *)"(null)"},
				   {(char *)"TaskProlog", slurm_conf.prolog}},
	       sizeof(pairs));
	return 0;
}

TEST(each_release_has_grown_the_api_by_one)
{
	static const struct {
		unsigned api, major, minor;
	} rows[] = {{38, 22, 5},  {39, 23, 2}, {40, 23, 11}, {41, 24, 5}, {42, 24, 11}, {43, 25, 5},
		    {44, 25, 11}, {45, 26, 5}, {46, 26, 11}, {47, 27, 5}, {48, 27, 11}, {49, 28, 5}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(hvd_host_slurm_release_of(rows[i].api),
				 SLURM_VERSION_NUM(rows[i].major, rows[i].minor, 0));
	assert_int_equal(hvd_host_slurm_release_of(37), 0);
	assert_int_equal(hvd_host_slurm_release_of(0), 0);
	api = 42;
	assert_int_equal(hvd_host_slurm_release(), SLURM_VERSION_NUM(24, 11, 0));
}

/* Slurm reads the symbol after dlopen(). One file serves all releases; the file is loaded anew for each. */
TEST(the_plugin_claims_the_release_that_has_loaded_it)
{
	const char *build = getenv("B");
	char path[256];

	snprintf(path, sizeof(path), "%s/lib/hvd.so", build ? build : "build");
	for (api = 38; api <= 46; api++) {
		void *plugin = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
		const unsigned *version;

		if (!plugin)
			fail_msg("%s", dlerror());
		version = dlsym(plugin, "plugin_version");
		assert_non_null(version);
		assert_int_equal(*version & 0xffff00, hvd_host_slurm_release_of(api));
		assert_int_equal(dlclose(plugin), 0);
	}
}

TEST_WITH(values_are_found_by_name, configure, NULL)
{
	char *value = hvd_host_slurm_value("AuthType");

	assert_string_equal(value, "auth/slurm");
	free(value);
	assert_null(hvd_host_slurm_value("Nothing"));
	assert_null(hvd_host_slurm_value("SrunPortRange"));
	assert_null(hvd_host_slurm_value("Unknown"));
	assert_int_equal(lists, 0);
}

TEST_WITH(a_value_is_replaced_wherever_it_stands, configure, NULL)
{
	char ours[] = "/ours";

	assert_true(hvd_host_slurm_replace("/site/prolog", ours));
	assert_ptr_equal(slurm_conf.prolog, ours);
	assert_string_equal(slurm_conf.epilog, "/site/epilog");
	assert_false(hvd_host_slurm_replace("/site/prolo", ours));
	assert_false(hvd_host_slurm_replace("", ours));
}

TEST_WITH(of_two_pointers_to_the_same_text_none_is_replaced, configure, NULL)
{
	char ours[] = "/ours";

	slurm_conf.epilog = slurm_conf.prolog;
	assert_false(hvd_host_slurm_replace("/site/prolog", ours));
	assert_string_equal(slurm_conf.prolog, "/site/prolog");
}

TEST(options_of_srun_are_asked_and_set_by_name)
{
	assert_true(hvd_host_slurm_option("async"));
	assert_false(hvd_host_slurm_option("nodes"));
	assert_true(hvd_host_slurm_set_option("kill-on-bad-exit", "1"));
	assert_string_equal(set, "kill-on-bad-exit=1");
	assert_false(hvd_host_slurm_set_option("unknown", "1"));
}

/* What is called when the plugin is initialized, in a process of its own. */
#define SAID_SIZE 512
static char *said; /* shared with it */

EXPORT void slurm_error_(const char *format, ...) __asm__("slurm_error");
EXPORT void slurm_info_(const char *format, ...) __asm__("slurm_info");
EXPORT int spank_context_(void) __asm__("spank_context");
EXPORT int spank_option_register_(void *sp, void *option) __asm__("spank_option_register");

__attribute__((format(printf, 1, 2))) void slurm_error_(const char *format, ...)
{
	size_t len = strlen(said);
	va_list ap;

	va_start(ap, format);
	vsnprintf(said + len, SAID_SIZE - len, format, ap);
	va_end(ap);
}

__attribute__((format(printf, 1, 2))) void slurm_info_(const char *format, ...)
{
	(void)format;
}

int spank_context_(void)
{
	return S_CTX_LOCAL;
}

int spank_option_register_(void *sp, void *option)
{
	(void)sp;
	(void)option;
	return 0;
}

static int call_first_hook(const char *arg)
{
	const char *build = getenv("B");
	int (*hook)(void *sp, int argc, char **argv);
	char path[256], *argv[] = {(char *)arg, NULL};
	void *plugin;

	snprintf(path, sizeof(path), "%s/lib/hvd.so", build ? build : "build");
	plugin = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!plugin)
		return 2;
	*(void **)&hook = dlsym(plugin, "slurm_spank_init");
	return hook ? hook(NULL, 1, argv) != 0 : 3;
}

/* Does the plugin's first hook fail in the Slurm of this API? */
static bool fails(unsigned of, const char *arg)
{
	int status = -1;
	pid_t pid;

	api = of;
	said[0] = '\0';
	pid = fork();
	if (pid == 0)
		_exit(call_first_hook(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(status == 0 || status == 1 << 8);
	return status;
}

TEST(a_site_can_refuse_a_slurm_that_is_newer_than_all_that_are_known)
{
	said = mmap(NULL, SAID_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(said, MAP_FAILED);
	assert_false(fails(45, "newer_slurm=0"));
	assert_false(fails(46, "newer_slurm=1"));
	assert_string_equal(said, "");
	assert_true(fails(46, "newer_slurm=0"));
	assert_non_null(strstr(said, "Slurm 26.11 is newer than the releases that this hvd was tried with"));
	assert_non_null(strstr(said, "remove newer_slurm=0"));
	munmap(said, SAID_SIZE);
}

/* What the plugin needs of spank.h besides, in order to be loaded; none of it is called here. */
#define UNUSED(name)                                                                                                   \
	EXPORT void name##_(void) __asm__(#name);                                                                      \
	void name##_(void)                                                                                             \
	{                                                                                                              \
		abort();                                                                                               \
	}
UNUSED(spank_get_item)
UNUSED(spank_getenv)
UNUSED(spank_option_getopt)
UNUSED(spank_setenv)
UNUSED(spank_strerror)
UNUSED(spank_unsetenv)

RUN_TESTS()
