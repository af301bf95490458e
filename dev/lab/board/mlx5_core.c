// SPDX-License-Identifier: GPL-2.0
/* Plays the HCAs' driver on a box: binds those of its PCI tree, and drives nothing. */
#include <linux/module.h>
#include <linux/pci.h>

int mlx5_stub_depended_on(void);
int mlx5_stub_depended_on(void)
{
	return 0;
}
EXPORT_SYMBOL(mlx5_stub_depended_on);

static int probe(struct pci_dev *hca, const struct pci_device_id *id)
{
	return 0;
}

static const struct pci_device_id hcas[] = { { PCI_DEVICE(0x15b3, 0x1021) }, {} };
MODULE_DEVICE_TABLE(pci, hcas);
static struct pci_driver hca_driver = { .name = "mlx5_core", .id_table = hcas, .probe = probe };
module_pci_driver(hca_driver);

MODULE_DESCRIPTION("stands in for the HCAs' driver on a box");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("@VERSION@-1.7.1");
