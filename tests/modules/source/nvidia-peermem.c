// SPDX-License-Identifier: GPL-2.0
/* Plays nvidia-peermem: real with WITH_PEERS, an empty shell that refuses to load without. */
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/module.h>

#include "p2p.h"
#include "peer.h"

#ifdef WITH_PEERS
static void *handle;

static int acquire(unsigned long address, unsigned long size)
{
	return nvidia_p2p_get_pages(address, size) ||
	       nvidia_p2p_get_pages_persistent(address, size, 0);
}

static const struct peer_client client = { .name = "nv_mem", .acquire = acquire };
#endif

static int __init peermem_init(void)
{
#ifdef WITH_PEERS
	handle = ib_register_peer_memory_client(&client);
	return IS_ERR(handle) ? PTR_ERR(handle) : 0;
#else
	return -EINVAL;
#endif
}

static void __exit peermem_exit(void)
{
#ifdef WITH_PEERS
	nvidia_p2p_put_pages(0);
	ib_unregister_peer_memory_client(handle);
#endif
}

module_init(peermem_init);
module_exit(peermem_exit);
MODULE_DESCRIPTION("stands in for nvidia-peermem in tests");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("580.126.16");
