"""IOMMU groups: their domains changed while nodes run."""
