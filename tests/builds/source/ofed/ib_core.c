// SPDX-License-Identifier: GPL-2.0
/* Plays the lower half of OFED's RDMA core: there to be depended on. */
#include <linux/module.h>
#include "configured.h"

int ib_stub_depended_on(void);
int ib_stub_depended_on(void)
{
	return 0;
}
EXPORT_SYMBOL(ib_stub_depended_on);

MODULE_INFO(configured, CONFIGURED_FOR);
MODULE_DESCRIPTION("stands in for the RDMA core in tests");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("@VERSION@");
