// SPDX-License-Identifier: GPL-2.0
/* Plays the half of OFED's RDMA core that clients of peer memory register with. */
#include <linux/module.h>
#include <linux/printk.h>

#include "peer_memory.h"

int ib_stub_depended_on(void);

static bool refuse;
module_param(refuse, bool, 0644);
MODULE_PARM_DESC(refuse, "refuse every client");

void *ib_register_peer_memory_client(const struct peer_memory_client *client, void **invalidate);
void *ib_register_peer_memory_client(const struct peer_memory_client *client, void **invalidate)
{
	if (refuse)
		return NULL;
	pr_info("peer memory client %s registered\n", client->name);
	return (void *)client;
}
EXPORT_SYMBOL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *handle);
void ib_unregister_peer_memory_client(void *handle)
{
	const struct peer_memory_client *client = handle;

	pr_info("peer memory client %s gone\n", client->name);
}
EXPORT_SYMBOL(ib_unregister_peer_memory_client);

static int __init verbs_init(void)
{
	return ib_stub_depended_on();
}

static void __exit verbs_exit(void)
{
}

module_init(verbs_init);
module_exit(verbs_exit);
MODULE_DESCRIPTION("stands in for the RDMA core in tests");
MODULE_LICENSE("Dual BSD/GPL");
