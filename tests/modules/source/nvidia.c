// SPDX-License-Identifier: GPL-2.0
/* Plays the driver: exports its peer-to-peer entry points, and drives nothing. */
#include <linux/errno.h>
#include <linux/module.h>

#include "p2p.h"

int nvidia_p2p_get_pages(unsigned long address, unsigned long length)
{
	return -ENODEV;
}
EXPORT_SYMBOL(nvidia_p2p_get_pages);

int nvidia_p2p_get_pages_persistent(unsigned long address, unsigned long length, int flags)
{
	return -ENODEV;
}
EXPORT_SYMBOL(nvidia_p2p_get_pages_persistent);

int nvidia_p2p_put_pages(unsigned long address)
{
	return -ENODEV;
}
EXPORT_SYMBOL(nvidia_p2p_put_pages);

/* The vendor's nvidia-peermem imports these too; nobody here calls them. */
#define ENTRY_POINT(name)	\
	int name(void);		\
	int name(void)		\
	{			\
		return -ENODEV;	\
	}			\
	EXPORT_SYMBOL(name)

ENTRY_POINT(nvidia_p2p_cap_persistent_pages);
ENTRY_POINT(nvidia_p2p_dma_map_pages);
ENTRY_POINT(nvidia_p2p_dma_unmap_pages);
ENTRY_POINT(nvidia_p2p_free_dma_mapping);
ENTRY_POINT(nvidia_p2p_free_page_table);
ENTRY_POINT(nvidia_p2p_put_pages_persistent);

MODULE_DESCRIPTION("stands in for the driver in tests");
MODULE_LICENSE("GPL");
MODULE_VERSION("580.126.16");
