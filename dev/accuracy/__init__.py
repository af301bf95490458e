"""How far the throughput model is off, on published measurements that it was not fitted to."""
