// SPDX-License-Identifier: GPL-2.0
/* Plays GDRCopy's driver: there to depend on nvidia. */
#include <linux/module.h>

struct nvidia_p2p_page_table;
int nvidia_p2p_get_pages(struct nvidia_p2p_page_table *table);
int nvidia_p2p_put_pages(struct nvidia_p2p_page_table *table);
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *table);

static int __init copy_init(void)
{
	return nvidia_p2p_get_pages(NULL) ? 0 : -EBUSY; /* no memory is to be had here */
}

static void __exit copy_exit(void)
{
	nvidia_p2p_put_pages(NULL);
	nvidia_p2p_free_page_table(NULL);
}

module_init(copy_init);
module_exit(copy_exit);
MODULE_DESCRIPTION("stands in for gdrdrv in tests");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("@VERSION@");
