// SPDX-License-Identifier: GPL-2.0
/*
 * Plays the RDMA devices of a box: for each HCA one with a port that is up, as sysfs shows it, and
 * a node in /dev/infiniband that cannot be opened. Kernel 6.1.
 */
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#define MOST 16

int ib_stub_depended_on(void);
int mlx5_stub_depended_on(void);

struct rdma {
	struct device *ib, *verbs;
	struct kobject *ports, *port;
};

static struct rdma found[MOST];
static int count;
static dev_t first;
static struct cdev node;
static struct class *ib_class, *verbs_class;

#define OF_DEVICE(name, text)									\
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf)	\
	{											\
		return sysfs_emit(buf, text "\n");						\
	}											\
	static DEVICE_ATTR_RO(name)

OF_DEVICE(fw_ver, "28.43.2026");
OF_DEVICE(hca_type, "MT4129");
OF_DEVICE(board_id, "MT_0000000838");
OF_DEVICE(node_type, "1: CA");

static ssize_t node_guid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "a088:c203:0000:%04x\n", to_pci_dev(dev->parent)->bus->number);
}
static DEVICE_ATTR_RO(node_guid);

static struct attribute *of_device_attrs[] = {
	&dev_attr_fw_ver.attr, &dev_attr_hca_type.attr, &dev_attr_board_id.attr,
	&dev_attr_node_type.attr, &dev_attr_node_guid.attr, NULL
};
ATTRIBUTE_GROUPS(of_device);

#define OF_PORT(id, file, text)								\
	static ssize_t id##_show(struct kobject *at, struct kobj_attribute *attr, char *buf)	\
	{											\
		return sysfs_emit(buf, text "\n");						\
	}											\
	static struct kobj_attribute id##_attr = {						\
		.attr = { .name = file, .mode = 0444 }, .show = id##_show			\
	}

OF_PORT(state, "state", "4: ACTIVE");
OF_PORT(phys_state, "phys_state", "5: LinkUp");
OF_PORT(rate, "rate", "400 Gb/sec (4X NDR)");
OF_PORT(link_layer, "link_layer", "InfiniBand");
OF_PORT(symbol_error, "symbol_error", "0");
OF_PORT(link_downed, "link_downed", "0");
OF_PORT(link_error_recovery, "link_error_recovery", "0");
OF_PORT(port_rcv_errors, "port_rcv_errors", "0");
OF_PORT(gid, "0", "fe80:0000:0000:0000:a088:c203:0000:0001");

static struct attribute *of_port[] = {
	&state_attr.attr, &phys_state_attr.attr, &rate_attr.attr, &link_layer_attr.attr, NULL
};
static struct attribute *of_counters[] = {
	&symbol_error_attr.attr, &link_downed_attr.attr, &link_error_recovery_attr.attr,
	&port_rcv_errors_attr.attr, NULL
};
static struct attribute *of_gids[] = { &gid_attr.attr, NULL };
static const struct attribute_group port_group = { .attrs = of_port };
static const struct attribute_group counters_group = { .name = "counters", .attrs = of_counters };
static const struct attribute_group gids_group = { .name = "gids", .attrs = of_gids };
static const struct attribute_group *port_groups[] = {
	&port_group, &counters_group, &gids_group, NULL
};

static int no_open(struct inode *inode, struct file *file)
{
	return -ENODEV;
}

static const struct file_operations node_ops = { .owner = THIS_MODULE, .open = no_open };

static char *in_folder(struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	return kasprintf(GFP_KERNEL, "infiniband/%s", dev_name(dev));
}

static int add(struct pci_dev *hca, struct rdma *made)
{
	made->ib = device_create_with_groups(ib_class, &hca->dev, 0, NULL, of_device_groups,
					     "mlx5_%d", count);
	if (IS_ERR(made->ib))
		return PTR_ERR(made->ib);
	made->ports = kobject_create_and_add("ports", &made->ib->kobj);
	made->port = kobject_create_and_add("1", made->ports);
	made->verbs = device_create(verbs_class, &hca->dev, first + count, NULL, "uverbs%d", count);
	if (!made->port || IS_ERR(made->verbs))
		return -ENOMEM;
	return sysfs_create_groups(made->port, port_groups);
}

static void __exit end(void)
{
	while (count--) {
		device_destroy(verbs_class, first + count);
		kobject_put(found[count].port);
		kobject_put(found[count].ports);
		device_unregister(found[count].ib);
	}
	cdev_del(&node);
	class_destroy(verbs_class);
	class_destroy(ib_class);
	unregister_chrdev_region(first, MOST);
}

static int __init begin(void)
{
	struct pci_dev *hca = NULL;
	int err = ib_stub_depended_on() + mlx5_stub_depended_on();

	err = err ?: alloc_chrdev_region(&first, 0, MOST, "infiniband_verbs");
	if (err)
		return err;
	ib_class = class_create(THIS_MODULE, "infiniband");
	verbs_class = class_create(THIS_MODULE, "infiniband_verbs");
	if (IS_ERR(ib_class) || IS_ERR(verbs_class))
		return -ENOMEM;
	verbs_class->devnode = in_folder;
	cdev_init(&node, &node_ops);
	err = cdev_add(&node, first, MOST);
	while (!err && count < MOST && (hca = pci_get_device(0x15b3, 0x1021, hca))) {
		err = add(hca, &found[count]);
		count++;
	}
	pci_dev_put(hca);
	return err;
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("stands in for RDMA devices on a box");
MODULE_LICENSE("Dual BSD/GPL");
