/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.c - in place of NVIDIA's libnvidia-ml.so.1: as far as hvd-agent uses it, as nvml.h documents it.
 *
 * NVML_STANDIN names a file of lines, which each call reads anew:
 *   gpus N                          so many there are; without it there is no driver
 *   process GPU PID BYTES           computes there; BYTES may be "unknown"
 *   sample GPU PID MICROSECONDS PERCENT
 *   rate GPU PERCENT                of the GPU; without it, that is not supported
 *   error FUNCTION CODE             this function returns that
 *   hang FUNCTION [FILE]            this function does not return; it looks for a file of a file system that hangs
 * A call that nvml.h forbids adds a line to the file with ".misused" behind its name.
 *
 * With OLD it is the library of a driver from before MIG, whose processes have no instances.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
};

typedef struct gpu *nvmlDevice_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
#ifndef OLD
	unsigned int gpuInstanceId, computeInstanceId;
#endif
} nvmlProcessInfo_t;

typedef struct {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	unsigned int gpu, memory;
} nvmlUtilization_t;

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API int nvmlDeviceGetCount_v2(unsigned int *count);
API int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
API int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);
API int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);
API int nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
					unsigned int *count, unsigned long long last_seen);
API int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization);

#define GPUS 16
static struct gpu {
	int index;
} gpus[GPUS];
static int begun;

static int misused(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int misused(const char *format, ...)
{
	char path[4096];
	va_list ap;
	FILE *f;

	snprintf(path, sizeof(path), "%s.misused", getenv("NVML_STANDIN"));
	f = fopen(path, "ae");
	if (!f)
		abort();
	va_start(ap, format);
	vfprintf(f, format, ap);
	va_end(ap);
	fputc('\n', f);
	fclose(f);
	return INVALID_ARGUMENT;
}

/* The next line that begins with the word: what follows it. */
static const char *next(FILE *f, const char *word)
{
	static char line[256];
	const size_t n = strlen(word);

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, word, n) == 0 && line[n] == ' ')
			return line + n + 1;
	return NULL;
}

static FILE *open_file(void)
{
	const char *path = getenv("NVML_STANDIN");

	return path ? fopen(path, "re") : NULL;
}

static unsigned number_of_gpus(void)
{
	FILE *f = open_file();
	const char *at = next(f, "gpus");
	unsigned n = at ? (unsigned)atoi(at) : 0;

	if (f)
		fclose(f);
	return n;
}

/* What all functions do first: SUCCESS is to go on. */
static int enter(const char *function, bool needs_init)
{
	FILE *f = open_file();
	char name[128], file[128] = "";
	const char *at;
	struct stat st;
	int code = SUCCESS, one;

	while ((at = next(f, "error")))
		if (sscanf(at, "%127s %d", name, &one) == 2 && strcmp(name, function) == 0)
			code = one;
	if (f)
		rewind(f);
	while ((at = next(f, "hang")))
		if (sscanf(at, "%127s %127s", name, file) >= 1 && strcmp(name, function) == 0)
			for (;;) {
				if (*file && stat(file, &st) == 0)
					abort();
				pause();
			}
	if (f)
		fclose(f);
	if (needs_init && begun == 0) {
		misused("%s: nvmlInit() was not called", function);
		return UNINITIALIZED;
	}
	return code;
}

static bool is_device(nvmlDevice_t device, const char *function)
{
	if (device >= gpus && device < gpus + number_of_gpus() && device->index == (int)(device - gpus) + 1)
		return true;
	misused("%s: that is no device", function);
	return false;
}

int nvmlInit_v2(void)
{
	int rc = enter("nvmlInit_v2", false);

	if (rc == SUCCESS && number_of_gpus() == 0)
		rc = DRIVER_NOT_LOADED;
	begun += rc == SUCCESS;
	return rc;
}

int nvmlShutdown(void)
{
	int rc = enter("nvmlShutdown", true);

	begun -= rc == SUCCESS;
	return rc;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	int rc = enter(__func__, true);

	if (rc == SUCCESS)
		*count = number_of_gpus();
	return rc;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	int rc = enter(__func__, true);

	if (rc != SUCCESS)
		return rc;
	if (index >= number_of_gpus() || index >= GPUS || !device)
		return misused("%s: there is no GPU %u", __func__, index);
	gpus[index].index = (int)index + 1;
	*device = &gpus[index];
	return SUCCESS;
}

static int running(const char *function, nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	int rc = enter(function, true);
	unsigned room, n = 0, gpu, pid;
	char bytes[64];
	const char *at;
	FILE *f;

	if (rc != SUCCESS)
		return rc;
	if (!is_device(device, function))
		return INVALID_ARGUMENT;
	if (!count || (*count > 0 && !infos))
		return misused("%s: no room for the answer", function);
	room = *count;
	f = open_file();
	while ((at = next(f, "process"))) {
		if (sscanf(at, "%u %u %63s", &gpu, &pid, bytes) != 3 || (int)gpu + 1 != device->index)
			continue;
		if (n < room) {
			infos[n] = (nvmlProcessInfo_t){
				.pid = pid, .usedGpuMemory = *bytes == 'u' ? ~0ULL : strtoull(bytes, NULL, 10)};
#ifndef OLD
			infos[n].gpuInstanceId = infos[n].computeInstanceId = ~0U;
#endif
		}
		n++;
	}
	fclose(f);
	*count = n;
	return n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#ifdef OLD
int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	return running(__func__, device, count, infos);
}
#else
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	return running(__func__, device, count, infos);
}
#endif

int nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count,
				    unsigned long long last_seen)
{
	int rc = enter(__func__, true);
	unsigned room, n = 0, gpu;
	const char *at;
	FILE *f;

	if (rc != SUCCESS)
		return rc;
	if (!is_device(device, __func__))
		return INVALID_ARGUMENT;
	if (!count)
		return misused("%s: no room for the number", __func__);
	room = samples ? *count : 0;
	f = open_file();
	while ((at = next(f, "sample"))) {
		nvmlProcessUtilizationSample_t sample = {0};

		if (sscanf(at, "%u %u %llu %u", &gpu, &sample.pid, &sample.timeStamp, &sample.smUtil) != 4 ||
		    (int)gpu + 1 != device->index || sample.timeStamp <= last_seen)
			continue;
		if (n < room)
			samples[n] = sample;
		n++;
	}
	fclose(f);
	*count = n;
	if (n == 0)
		return NOT_FOUND;
	return n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	int rc = enter(__func__, true);
	unsigned gpu, percent;
	const char *at;
	FILE *f;

	if (rc != SUCCESS)
		return rc;
	if (!is_device(device, __func__) || !utilization)
		return INVALID_ARGUMENT;
	rc = NOT_SUPPORTED;
	f = open_file();
	while ((at = next(f, "rate")))
		if (sscanf(at, "%u %u", &gpu, &percent) == 2 && (int)gpu + 1 == device->index) {
			*utilization = (nvmlUtilization_t){.gpu = percent};
			rc = SUCCESS;
		}
	fclose(f);
	return rc;
}
