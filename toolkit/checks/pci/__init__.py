"""Checks on PCI: ACS, ATS, BARs, links, IOMMU."""
