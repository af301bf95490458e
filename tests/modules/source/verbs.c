/* What stands for libibverbs and libmlx5 where there is no HCA: their calls, by rules that the
 * environment has: GDR_FAKE="public:mlx5_0=9 kernel:mlx5_0=9 dmabuf:mlx5_0=524 ...", each an
 * errno, or "hang" or "crash"; a call without a rule succeeds. GDR_HCAS names the devices.
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
    (void)offset, (void)length, (void)iova, (void)access;
    return gives(pd, rule(kind, pd->of->name, strcmp(kind, "public") ? 0 : EBADF));
}

int ibv_cmd_reg_dmabuf_mr(struct domain *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, void *mr)
{
    (void)offset, (void)length, (void)iova, (void)fd, (void)access, (void)mr;
    return rule("kernel", pd->of->name, EBADF);
}
#endif

void *ibv_reg_mr(struct domain *pd, void *address, size_t length, int access)
{
    (void)address, (void)length, (void)access;
    return gives(pd, rule("peermem", pd->of->name, 0));
}

int ibv_dereg_mr(struct domain *pd) { return rule("dereg", pd->of->name, 0); }

int mlx5dv_get_data_direct_sysfs_path(struct device *context, char *buffer, size_t size)
{
    (void)buffer, (void)size;
    return rule("sysfs", context->name, ENODEV);
}

void *mlx5dv_reg_dmabuf_mr(struct domain *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, int mlx5)
{
    (void)offset, (void)length, (void)iova, (void)fd, (void)access, (void)mlx5;
    return gives(pd, rule("data-direct", pd->of->name, 0));
}
