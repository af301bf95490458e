/* What stands for libcuda and NVML where there is no GPU: see verbs.c for the rules. GDR_GPUS names
 * the PCI addresses; with CUDA_VISIBLE_DEVICES one alone is there, as with the real one. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include "rules.h"

static char *address(int index)
{
    static char all[1024];
    char *visible = getenv("CUDA_VISIBLE_DEVICES"), *each;
    if (visible)
        index += atoi(visible);
    snprintf(all, sizeof all, "%s", getenv("GDR_GPUS") ? getenv("GDR_GPUS") : "");
    for (each = strtok(all, " "); each && index--; each = strtok(NULL, " "))
        ;
    return each;
}

int cuInit(unsigned flags) { (void)flags; return rule("cuInit", "all", 0); }

int cuDeviceGetCount(int *count)
{
    for (*count = 0; address(*count); ++*count)
        ;
    if (getenv("CUDA_VISIBLE_DEVICES"))
        *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int index) { *device = index; return 0; }

int cuDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, size, "%s", address(device));
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 20 ? rule("mode", address(device), 0) : 0;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = &address;
    return rule("context", address(device), 0);
}

int cuCtxSetCurrent(void *context) { return context != (void *)&address; }

int cuMemAlloc_v2(uint64_t *pointer, size_t size)
{
    *pointer = 0x7f0000000000;
    return size == 2 << 20 ? rule("alloc", address(0), 0) : 1;
}

int cuMemGetAllocationGranularity(size_t *size, void *wanted, int option)
{
    (void)option;
    *size = 2 << 20;
    return ((int *)wanted)[2] != 1; /* on a device */
}

int cuMemCreate(uint64_t *handle, size_t size, void *wanted, unsigned long long flags)
{
    *handle = 1;
    /* CUmemAllocationProp: type, handle types, location (2), a pointer, then gpuDirectRDMACapable */
    return size % (2 << 20) || flags || ((unsigned char *)wanted)[25] != 1;
}

int cuMemAddressReserve(uint64_t *pointer, size_t size, size_t alignment, uint64_t at, unsigned long long flags)
{
    (void)size, (void)alignment, (void)at, (void)flags;
    *pointer = 0x7f1000000000;
    return 0;
}

int cuMemMap(uint64_t pointer, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
    (void)pointer, (void)size, (void)offset, (void)flags;
    return handle != 1;
}

int cuMemSetAccess(uint64_t pointer, size_t size, void *access, size_t count)
{
    (void)pointer, (void)size;
    return ((int *)access)[2] != 3 || count != 1; /* read and write */
}

int cuMemGetHandleForAddressRange(int *fd, uint64_t pointer, size_t size, int type, unsigned long long flags)
{
    const char *way = flags == 1 ? "dmabuf-pcie" : pointer == 0x7f1000000000 ? "dmabuf-vmm" : "dmabuf";
    char call[64];
    snprintf(call, sizeof call, "export-%s", way);
    if (type != 1 || size != 2 << 20)
        return 1;
    *fd = memfd_create(way, 0);
    return rule(call, address(0), 0);
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : error == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, char **device)
{
    *device = strdup(bus);
    return 0;
}

int nvmlDeviceGetMemoryInfo(char *device, unsigned long long *memory)
{
    memory[1] = 1000000ULL * rule("free", device, 80000);
    return rule("nvml", device, 0);
}
