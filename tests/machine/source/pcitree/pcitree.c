// SPDX-License-Identifier: GPL-2.0
/*
 * PCI Express trees made of software, for guests of the tests.
 *
 * The firmware file pcitree.bin holds host bridges and functions, see struct host and struct
 * function. The kernel's PCI core is given a root bus for each host bridge and enumerates what
 * lies below as it does with hardware: its parameters act on it, sysfs, lspci and setpci show
 * it, and what is written to a register is there again when it is read, where the mask says
 * that the register can be written.
 *
 * Behind the registers is nothing: no memory, no DMA, no interrupts. There is no way to unload
 * the module, as there is none to pull a switch out of a board.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/firmware.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define SPACE 4096 /* bytes of configuration space that a PCI Express function has */
#define NO_NODE 0xffff

struct header {
	char magic[8];
	__le32 hosts;
	__le32 functions;
} __packed;

struct host {
	__le16 domain;
	u8 first_bus;
	u8 last_bus;
	__le16 node; /* of NUMA, or NO_NODE */
	__le16 window; /* address space for what lies below, in GiB */
} __packed;

struct function {
	__le16 domain;
	u8 bus;
	u8 devfn;
	u8 value[SPACE];
	u8 mask[SPACE]; /* which bits a write changes */
} __packed;

struct root {
	struct pci_sysdata sysdata; /* what x86 finds domain and node by */
	struct resource buses;
	struct resource memory;
};

static struct function *functions;
static u32 count;

static struct function *find(const struct pci_bus *bus, unsigned int devfn)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (functions[i].bus == bus->number && functions[i].devfn == devfn &&
		    le16_to_cpu(functions[i].domain) == pci_domain_nr((struct pci_bus *)bus))
			return &functions[i];
	return NULL;
}

static int tree_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	const struct function *f = find(bus, devfn);

	*value = ~0U; /* what a bus says where nobody answers */
	if (!f || where < 0 || where + size > SPACE)
		return PCIBIOS_DEVICE_NOT_FOUND;
	*value = 0;
	while (size--)
		*value = *value << 8 | f->value[where + size];
	return PCIBIOS_SUCCESSFUL;
}

static int tree_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct function *f = find(bus, devfn);

	if (!f || where < 0 || where + size > SPACE)
		return PCIBIOS_DEVICE_NOT_FOUND;
	for (; size--; where++, value >>= 8)
		f->value[where] = (f->value[where] & ~f->mask[where]) | (value & f->mask[where]);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops tree_ops = { .read = tree_read, .write = tree_write };

static int __init add_host(const struct host *h)
{
	struct root *r = kzalloc(sizeof(*r), GFP_KERNEL);
	u64 size = (u64)le16_to_cpu(h->window) << 30;
	struct pci_bus *bus;
	LIST_HEAD(resources);
	int err;

	if (!r)
		return -ENOMEM;
	r->sysdata.domain = le16_to_cpu(h->domain);
	r->sysdata.node = le16_to_cpu(h->node) == NO_NODE ? NUMA_NO_NODE : le16_to_cpu(h->node);
	if (r->sysdata.node != NUMA_NO_NODE && !node_online(r->sysdata.node))
		r->sysdata.node = NUMA_NO_NODE;
	r->buses.name = KBUILD_MODNAME;
	r->buses.start = h->first_bus;
	r->buses.end = h->last_bus;
	r->buses.flags = IORESOURCE_BUS;
	r->memory.name = KBUILD_MODNAME;
	r->memory.flags = IORESOURCE_MEM | IORESOURCE_MEM_64 | IORESOURCE_PREFETCH;
	err = allocate_resource(&iomem_resource, &r->memory, size, 1ULL << 32, ~0ULL, 1ULL << 30,
				NULL, NULL);
	if (err) {
		pr_err("no %u GiB of address space\n", le16_to_cpu(h->window));
		kfree(r);
		return err;
	}
	pci_add_resource(&resources, &r->buses);
	pci_add_resource(&resources, &r->memory);
	pci_lock_rescan_remove();
	bus = pci_create_root_bus(NULL, h->first_bus, &tree_ops, &r->sysdata, &resources);
	if (bus) {
		pci_scan_child_bus(bus);
		pci_assign_unassigned_bus_resources(bus);
		pci_bus_add_devices(bus);
	}
	pci_unlock_rescan_remove();
	return bus ? 0 : -ENODEV;
}

static int __init take(const struct firmware *file)
{
	const struct header *head = (const void *)file->data;
	const struct host *hosts = (const void *)(head + 1);
	u32 i, all;
	int err;

	if (file->size < sizeof(*head) || memcmp(head->magic, "PCITREE1", 8))
		return -EINVAL;
	all = le32_to_cpu(head->hosts);
	count = le32_to_cpu(head->functions);
	if (file->size != sizeof(*head) + (u64)all * sizeof(*hosts) + (u64)count * sizeof(*functions))
		return -EINVAL;
	functions = vmalloc(array_size(count, sizeof(*functions)));
	if (!functions)
		return -ENOMEM;
	memcpy(functions, hosts + all, (size_t)count * sizeof(*functions));
	for (i = 0; i < all; i++) {
		err = add_host(&hosts[i]);
		/* A bus that the kernel has been given stays: then the module does, too. */
		if (err)
			pr_err("host bridge %u of %u was not added: error %d\n", i + 1, all, err);
	}
	return 0;
}

static int __init pcitree_init(void)
{
	struct platform_device *owner;
	const struct firmware *file;
	int err;

	owner = platform_device_register_simple(KBUILD_MODNAME, PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(owner))
		return PTR_ERR(owner);
	err = request_firmware_direct(&file, "pcitree.bin", &owner->dev);
	if (!err) {
		err = take(file);
		release_firmware(file);
	}
	platform_device_unregister(owner);
	if (err)
		pr_err("pcitree.bin: error %d\n", err);
	return err;
}
module_init(pcitree_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("PCI Express trees made of software");
MODULE_FIRMWARE("pcitree.bin");
