// SPDX-License-Identifier: GPL-2.0
/* As OFED leaves the driver of another maker's HCAs: it loads, and there is nothing in it. */
#include <linux/module.h>

static int __init irdma_init(void)
{
	return 0;
}

static void __exit irdma_exit(void)
{
}

module_init(irdma_init);
module_exit(irdma_exit);
MODULE_DESCRIPTION("irdma dummy kernel module");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("5.7");
