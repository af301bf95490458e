// SPDX-License-Identifier: GPL-2.0
/* Plays the driver: exports its peer-to-peer entry points, and drives nothing. */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "p2p.h"

static int version_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  (stub)\n",
		   "@VERSION@");
	return 0;
}

static int __init p2p_init(void)
{
	struct proc_dir_entry *folder = proc_mkdir("driver/nvidia", NULL);

	if (!folder || !proc_create_single("version", 0444, folder, version_show))
		return -ENOMEM;
	return 0;
}

static void __exit p2p_exit(void)
{
	remove_proc_subtree("driver/nvidia", NULL);
}

module_init(p2p_init);
module_exit(p2p_exit);
MODULE_DESCRIPTION("stands in for the driver in tests");
MODULE_LICENSE("@LICENSE@");
MODULE_VERSION("@VERSION@");
