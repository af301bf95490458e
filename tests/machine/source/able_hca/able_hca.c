// SPDX-License-Identifier: GPL-2.0
/*
 * An RDMA device that has the call for dma-buf memory, and nothing behind it: no software device of
 * the kernel has it. It calls itself Soft-RoCE's, so that libibverbs has a provider for it, and one
 * without that call: the kernel can, and the library cannot.
 */
#include <linux/module.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

MODULE_LICENSE("GPL");

struct able { struct ib_device ib; };
static struct able *able;

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->max_mr_size = ~0ull;
	attr->page_size_cap = PAGE_SIZE;
	attr->max_pd = attr->max_mr = 16;
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = attr->pkey_tbl_len = 1;
	return 0;
}

static int immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *what)
{
	what->core_cap_flags = RDMA_CORE_CAP_PROT_USNIC;
	what->gid_tbl_len = what->pkey_tbl_len = 1;
	return 0;
}

static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static int alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata) { return 0; }
static void dealloc_ucontext(struct ib_ucontext *context) { }
static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return 0; }
static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return 0; }

static struct ib_mr *reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 address, int fd,
				int access, struct ib_udata *udata)
{
	struct ib_umem_dmabuf *memory = ib_umem_dmabuf_get_pinned(pd->device, offset, length, fd, access);

	if (IS_ERR(memory))
		return ERR_CAST(memory);
	ib_umem_release(&memory->umem);
	return ERR_PTR(-ENOMEM); /* it would need hardware from here on */
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata) { return 0; }

struct able_pd { struct ib_pd ib; };
struct able_context { struct ib_ucontext ib; };

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = 2,
	.query_device = query_device,
	.query_port = query_port,
	.get_port_immutable = immutable,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.alloc_ucontext = alloc_ucontext,
	.dealloc_ucontext = dealloc_ucontext,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_user_mr_dmabuf = reg_dmabuf,
	.dereg_mr = dereg_mr,
	INIT_RDMA_OBJ_SIZE(ib_pd, able_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, able_context, ib),
};

static int __init begin(void)
{
	int err;

	able = ib_alloc_device(able, ib);
	if (!able)
		return -ENOMEM;
	able->ib.phys_port_cnt = 1;
	able->ib.num_comp_vectors = 1;
	able->ib.node_type = RDMA_NODE_USNIC;
	ib_set_device_ops(&able->ib, &ops);
	err = ib_register_device(&able->ib, "able%d", NULL);
	if (err)
		ib_dealloc_device(&able->ib);
	return err;
}

static void __exit end(void)
{
	ib_unregister_device(&able->ib);
	ib_dealloc_device(&able->ib);
}

module_init(begin);
module_exit(end);
