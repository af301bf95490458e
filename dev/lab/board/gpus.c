// SPDX-License-Identifier: GPL-2.0
/*
 * Plays the driver on a box: binds the GPUs of its PCI tree, says of itself what the real one says
 * below /proc/driver/nvidia, exports the peer-to-peer entry points, and drives nothing.
 */
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#include "p2p.h"

static char *flavor = "open";
module_param(flavor, charp, 0444);
MODULE_PARM_DESC(flavor, "open, or proprietary, which exports no dma-buf");

static int dead_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	*value = ~0U; /* what a root port makes of a request that nobody answers */
	return PCIBIOS_SUCCESSFUL;
}

static int dead_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops dead_ops = { .read = dead_read, .write = dead_write };
static char lost[16];

/* The GPU falls off the bus: its config space reads as ff, and the log has what the driver says. */
static int lose(const char *value, const struct kernel_param *unused)
{
	unsigned int domain, bus, slot, function;
	struct pci_dev *gpu;

	if (sscanf(value, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return -EINVAL;
	gpu = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
	if (!gpu)
		return -ENODEV;
	strscpy(lost, pci_name(gpu), sizeof(lost));
	__module_get(THIS_MODULE); /* it never comes back, and its bus reads by us */
	pci_bus_set_ops(gpu->bus, &dead_ops);
	printk(KERN_ERR "NVRM: Xid (PCI:%.10s): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
	       lost);
	printk(KERN_ERR "NVRM: GPU %s: GPU has fallen off the bus.\n", lost);
	pci_dev_put(gpu);
	return 0;
}

static const struct kernel_param_ops lost_ops = { .set = lose, .get = param_get_string };
static struct kparam_string lost_string = { .maxlen = sizeof(lost), .string = lost };
module_param_cb(lost, &lost_ops, &lost_string, 0644);
MODULE_PARM_DESC(lost, "address of a GPU that is to fall off the bus");

static int probe(struct pci_dev *gpu, const struct pci_device_id *id)
{
	return 0;
}

static const struct pci_device_id gpus[] = {
	{ PCI_DEVICE(0x10de, PCI_ANY_ID), .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = ~0 },
	{}
};
MODULE_DEVICE_TABLE(pci, gpus);
static struct pci_driver driver = { .name = "nvidia", .id_table = gpus, .probe = probe };

static int version_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "NVRM version: NVIDIA UNIX %s  @VERSION@  (stub)\n",
		   strcmp(flavor, "open") ? "x86_64 Kernel Module" : "Open Kernel Module for x86_64");
	return 0;
}

static int params_show(struct seq_file *file, void *unused)
{
	seq_puts(file, "EnableMSI: 1\nEnableStreamMemOPs: 0\nDmaRemapPeerMmio: 1\nRegistryDwords: \"\"\n");
	return 0;
}

static int __init begin(void)
{
	struct proc_dir_entry *folder = proc_mkdir("driver/nvidia", NULL);

	if (!folder || !proc_create_single("version", 0444, folder, version_show) ||
	    !proc_create_single("params", 0444, folder, params_show))
		return -ENOMEM;
	return pci_register_driver(&driver);
}

static void __exit end(void)
{
	pci_unregister_driver(&driver);
	remove_proc_subtree("driver/nvidia", NULL);
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("stands in for the driver on a box");
MODULE_LICENSE("@LICENSE@");
MODULE_VERSION("@VERSION@");
