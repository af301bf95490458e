/* What stands for libibverbs and libmlx5 where there is no HCA: their calls, by rules that the
 * environment has: GDR_FAKE="public:mlx5_0=9 kernel:mlx5_0=9 dmabuf:mlx5_0=524 ...", each an
 * errno, or "hang" or "crash"; a call without a rule succeeds. GDR_HCAS names the devices.
 * A call with other words than NCCL's is EINVAL: 2 MiB from 0 on, to write and read from afar.
 * The real library answers in a guest: tests/machine/test_register.py. */
#include <errno.h>
#include <stdint.h>
#include "rules.h"

struct device { char name[32]; };
struct domain { struct device *of; };
static struct device devices[16];
static struct device *list[17];

static void *gives(void *thing, int error)
{
    if (!error)
        return thing;
    errno = error;
    return NULL;
}

struct device **ibv_get_device_list(int *count)
{
    char *names = strdup(getenv("GDR_HCAS") ? getenv("GDR_HCAS") : ""), *name;
    int at = 0;
    for (name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        snprintf(devices[at].name, sizeof devices[at].name, "%s", name);
        list[at] = &devices[at];
        at++;
    }
    *count = at;
    return gives(list, rule("list", "all", 0));
}

const char *ibv_get_device_name(struct device *device) { return device->name; }
void *ibv_open_device(struct device *device) { return gives(device, rule("open", device->name, 0)); }

struct domain *ibv_alloc_pd(struct device *context)
{
    struct domain *made = calloc(1, sizeof *made);
    made->of = context;
    return made;
}

#ifndef OLD
static const char *kind_of(int fd, char *room, size_t size)
{
    char path[64], target[256] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, target, sizeof target - 1) < 0 || strncmp(target, "/memfd:", 7))
        return "public"; /* no dma-buf at all */
    snprintf(room, size, "%s", target + 7);
    if (strchr(room, ' '))
        *strchr(room, ' ') = 0; /* " (deleted)" */
    return room;
}

void *ibv_reg_dmabuf_mr(struct domain *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
    char room[64];
    const char *kind = kind_of(fd, room, sizeof room);
    int file = strcmp(kind, "public");
    if (offset || iova || length != (file ? 2 << 20 : 0) || access != (file ? 7 : 0) || (!file && fd != -1))
        return gives(pd, EINVAL);
    return gives(pd, rule(kind, pd->of->name, file ? 0 : EBADF));
}

int ibv_cmd_reg_dmabuf_mr(struct domain *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, void *mr)
{
    if (offset || length || iova || fd != -1 || access || !mr)
        return EINVAL;
    return rule("kernel", pd->of->name, EBADF);
}
#endif

void *ibv_reg_mr(struct domain *pd, void *address, size_t length, int access)
{
    if (address != (void *)0x7f0000000000 || length != 2 << 20 || access != 7)
        return gives(pd, EINVAL);
    return gives(pd, rule("peermem", pd->of->name, 0));
}

int ibv_dereg_mr(struct domain *pd) { return rule("dereg", pd->of->name, 0); }

int mlx5dv_get_data_direct_sysfs_path(struct device *context, char *buffer, size_t size)
{
    memset(buffer, 'x', size);
    return size < 256 ? ENOSPC : rule("sysfs", context->name, ENODEV);
}

void *mlx5dv_reg_dmabuf_mr(struct domain *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, int mlx5)
{
    if (offset || length != 2 << 20 || iova || fd < 0 || access != 7 || mlx5 != 1)
        return gives(pd, EINVAL);
    return gives(pd, rule("data-direct", pd->of->name, 0));
}
