// SPDX-License-Identifier: GPL-2.0
/* Plays what OFED brings of later kernels: all of it rests on this. */
#include <linux/module.h>

int mlx_backport_depended_on(void);
int mlx_backport_depended_on(void)
{
	return 0;
}
EXPORT_SYMBOL(mlx_backport_depended_on);

MODULE_DESCRIPTION("stands in for OFED's backports in tests");
MODULE_LICENSE("Dual BSD/GPL");
