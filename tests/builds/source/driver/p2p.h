/* In a header, since genksyms looks into no structure of the source file itself. */
#include <linux/errno.h>
#include <linux/module.h>

struct nvidia_p2p_page_table {
	unsigned int version;
#ifdef OTHER_SHAPE
	unsigned long flags;
#endif
};

#define ENTRY_POINT(name)					\
	int name(struct nvidia_p2p_page_table *table);		\
	int name(struct nvidia_p2p_page_table *table)		\
	{							\
		return -ENODEV;					\
	}							\
	EXPORT_SYMBOL(name)

ENTRY_POINT(nvidia_p2p_get_pages);
ENTRY_POINT(nvidia_p2p_get_pages_persistent);
ENTRY_POINT(nvidia_p2p_put_pages);
ENTRY_POINT(nvidia_p2p_put_pages_persistent);
ENTRY_POINT(nvidia_p2p_cap_persistent_pages);
ENTRY_POINT(nvidia_p2p_dma_map_pages);
ENTRY_POINT(nvidia_p2p_dma_unmap_pages);
ENTRY_POINT(nvidia_p2p_free_dma_mapping);
ENTRY_POINT(nvidia_p2p_free_page_table);
