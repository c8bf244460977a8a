/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_nvml.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEVICES 64
#define MOST_SAMPLES 4096
#define TRIES        3  /* while processes begin between the question for their number and that for themselves */
#define MORE         16 /* of which there is room in the second question */

/* ---- NVIDIA's nvml.h ---- */

typedef void *nvml_device;

enum {
	SUCCESS = 0,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
};

/* nvmlProcessInfo_v1_t, of the function without a version. */
struct info_v1 {
	unsigned pid;
	unsigned long long memory;
};

/* nvmlProcessInfo_v2_t, of the functions _v2 and _v3. */
struct info_v2 {
	unsigned pid;
	unsigned long long memory;
	unsigned gpu_instance, compute_instance;
};

/* The largest that any driver has written: in the first ones of release 535 _v3 had a member more. */
struct info_most {
	struct info_v2 info;
	unsigned long long protected;
};

/* nvmlProcessUtilizationSample_t */
struct sample {
	unsigned pid;
	unsigned long long time; /* microseconds */
	unsigned sm, memory, encoder, decoder;
};

/* nvmlUtilization_t */
struct rates {
	unsigned gpu, memory;
};

struct hvd_nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *n);
	int (*handle)(unsigned index, nvml_device *device);
	int (*running)(nvml_device device, unsigned *n, void *infos);
	size_t info_size;
	/* NULL: the library lacks it. */
	int (*utilization)(nvml_device device, struct sample *samples, unsigned *n, unsigned long long last_seen);
	int (*rates)(nvml_device device, struct rates *rates);

	size_t n;
	struct {
		nvml_device device;
		unsigned long long last_seen; /* the time of the latest sample */
	} devices[MOST_DEVICES];
};

/* ---- the library ---- */

/* `function` is the address of a pointer to one: ISO C has no cast from dlsym()'s result, POSIX gives both the same
 * representation. */
static bool find(void *library, const char *name, void *function)
{
	void *at = dlsym(library, name);

	memcpy(function, &at, sizeof(at));
	return at != NULL;
}

static bool find_running(struct hvd_nvml *nvml)
{
	nvml->info_size = sizeof(struct info_v2);
	if (find(nvml->library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml->running) ||
	    find(nvml->library, "nvmlDeviceGetComputeRunningProcesses_v2", &nvml->running))
		return true;
	nvml->info_size = sizeof(struct info_v1);
	return find(nvml->library, "nvmlDeviceGetComputeRunningProcesses", &nvml->running);
}

static bool find_all(struct hvd_nvml *nvml)
{
	find(nvml->library, "nvmlDeviceGetProcessUtilization", &nvml->utilization);
	find(nvml->library, "nvmlDeviceGetUtilizationRates", &nvml->rates);
	return find(nvml->library, "nvmlInit_v2", &nvml->init) &&
	       find(nvml->library, "nvmlShutdown", &nvml->shutdown) &&
	       find(nvml->library, "nvmlDeviceGetCount_v2", &nvml->count) &&
	       find(nvml->library, "nvmlDeviceGetHandleByIndex_v2", &nvml->handle) && find_running(nvml);
}

/* A GPU that this process may not use is left out, and so is one that is lost. */
static void list_devices(struct hvd_nvml *nvml)
{
	unsigned n = 0;

	if (nvml->count(&n) != SUCCESS)
		return;
	for (unsigned i = 0; i < n && nvml->n < MOST_DEVICES; i++)
		if (nvml->handle(i, &nvml->devices[nvml->n].device) == SUCCESS)
			nvml->n++;
}

struct hvd_nvml *hvd_nvml_open(const char *soname, struct hvd_err *err)
{
	struct hvd_nvml *nvml = hvd_xcalloc(1, sizeof(*nvml));
	int rc;

	nvml->library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library) {
		hvd_err_set(err, HVD_E_SYS, "cannot load NVIDIA's library: %s", dlerror());
	} else if (!find_all(nvml)) {
		hvd_err_set(err, HVD_E_SYS, "%s is not NVIDIA's library: it lacks functions", soname);
	} else if ((rc = nvml->init()) != SUCCESS) {
		hvd_err_set(err, HVD_E_SYS, "NVIDIA's library does not find a driver (error %d)", rc);
	} else {
		list_devices(nvml);
		return nvml;
	}
	if (nvml->library)
		dlclose(nvml->library);
	free(nvml);
	return NULL;
}

void hvd_nvml_close(struct hvd_nvml *nvml)
{
	if (!nvml)
		return;
	nvml->shutdown();
	dlclose(nvml->library);
	free(nvml);
}

/* ---- looking ---- */

/* The processes on a device, *n elements of info_size bytes, which the caller frees. NULL: there are none, or they are
 * not known. */
static char *running(const struct hvd_nvml *nvml, nvml_device device, unsigned *n)
{
	hvd_cleanup_free char *infos = NULL;
	unsigned room = 0;

	for (int i = 0; i < TRIES; i++) {
		int rc;

		*n = room;
		rc = nvml->running(device, n, infos);
		if (rc == SUCCESS && *n <= room)
			return hvd_take_ptr(&infos);
		if (rc != INSUFFICIENT_SIZE || *n > MOST_SAMPLES)
			break;
		room = *n + MORE;
		infos = hvd_xrealloc(infos, room, sizeof(struct info_most));
	}
	*n = 0;
	return NULL;
}

/* The samples of the processes on a device that have been taken since the last look: *n of them, which the caller frees;
 * NULL: nothing has used the GPU. -1: they are not known. */
static int take_samples(const struct hvd_nvml *nvml, size_t at, struct sample **ret_samples, unsigned *n)
{
	hvd_cleanup_free struct sample *samples = NULL;
	unsigned room = 0;

	*ret_samples = NULL;
	for (int i = 0; nvml->utilization && i < TRIES; i++) {
		int rc;

		*n = room;
		rc = nvml->utilization(nvml->devices[at].device, samples, n, nvml->devices[at].last_seen);
		if (rc == NOT_FOUND || (rc == SUCCESS && *n == 0)) {
			*n = 0;
			return 0;
		}
		if (rc == SUCCESS && *n <= room) {
			*ret_samples = hvd_take_ptr(&samples);
			return 0;
		}
		if (rc != INSUFFICIENT_SIZE || *n > MOST_SAMPLES)
			break;
		room = *n + MORE;
		samples = hvd_xrealloc(samples, room, sizeof(*samples));
	}
	*n = 0;
	return -1;
}

/* The mean of the process's samples. Drivers have left old ones and those of more than 100 % among them. */
static int32_t used_by(unsigned pid, const struct sample *samples, unsigned n, unsigned long long last_seen)
{
	unsigned sum = 0, found = 0;

	for (unsigned i = 0; i < n; i++)
		if (samples[i].pid == pid && samples[i].time > last_seen && samples[i].sm <= 100) {
			sum += samples[i].sm;
			found++;
		}
	return found ? (int32_t)(10 * sum / found) : 0;
}

/* The time of all processes on a device. */
static int32_t used_by_all(const struct hvd_nvml *nvml, nvml_device device)
{
	struct rates rates = {0};

	return nvml->rates && nvml->rates(device, &rates) == SUCCESS && rates.gpu <= 100 ? (int32_t)(10 * rates.gpu)
											 : -1;
}

static void look_at(struct hvd_nvml *nvml, size_t at, struct hvd_gpu_processes *found)
{
	const unsigned long long last_seen = nvml->devices[at].last_seen;
	unsigned n = 0, n_samples = 0;
	hvd_cleanup_free char *infos = running(nvml, nvml->devices[at].device, &n);
	hvd_cleanup_free struct sample *samples = NULL;
	struct sample *taken;
	bool counted;
	int32_t all = -1;

	if (n == 0)
		return;
	counted = take_samples(nvml, at, &taken, &n_samples) == 0;
	samples = taken;
	for (unsigned i = 0; i < n_samples; i++)
		if (samples[i].time > nvml->devices[at].last_seen)
			nvml->devices[at].last_seen = samples[i].time;
	if (!counted && n == 1)
		all = used_by_all(nvml, nvml->devices[at].device);
	for (unsigned i = 0; i < n; i++) {
		struct info_v1 info; /* which the others begin with */

		memcpy(&info, infos + i * nvml->info_size, sizeof(info));
		hvd_gpu_process_add(found, info.pid <= INT32_MAX ? (int32_t)info.pid : 0,
				    counted ? used_by(info.pid, samples, n_samples, last_seen) : all,
				    info.memory <= INT64_MAX ? (int64_t)info.memory : -1);
	}
}

void hvd_nvml_look(struct hvd_nvml *nvml, struct hvd_gpu_processes *found)
{
	for (size_t i = 0; i < nvml->n; i++)
		look_at(nvml, i, found);
}
