// SPDX-License-Identifier: GPL-2.0
/* Plays the RDMA core: with WITH_PEERS as OFED builds it, without as the kernel does. */
#include <linux/errno.h>
#include <linux/err.h>
#include <linux/module.h>

#include "peer.h"

#ifdef WITH_PEERS
void *ib_register_peer_memory_client(const struct peer_client *client)
{
	return ERR_PTR(-ENODEV);
}
EXPORT_SYMBOL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *handle)
{
}
EXPORT_SYMBOL(ib_unregister_peer_memory_client);
#endif

MODULE_DESCRIPTION("stands in for the RDMA core in tests");
MODULE_LICENSE("GPL");
