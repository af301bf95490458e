"""PCI functions: tree, config space, ACS, IOMMU, link state."""
