"""Settings in the firmware of HCAs: read, planned, written on consent, taken back."""
