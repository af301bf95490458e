"""Built modules on disk: the store, manifests, OpenSSL."""
