// SPDX-License-Identifier: GPL-2.0
/* Plays the lower half of OFED's RDMA core: there to be depended on. No version, as OFED's own. */
#include <linux/module.h>
#include <generated/configured.h>

int mlx_backport_depended_on(void);
int ib_stub_depended_on(void);
int ib_stub_depended_on(void)
{
	return mlx_backport_depended_on();
}
EXPORT_SYMBOL(ib_stub_depended_on);

MODULE_INFO(configured, CONFIGURED_FOR);
MODULE_DESCRIPTION("stands in for the RDMA core in tests");
MODULE_LICENSE("Dual BSD/GPL");
