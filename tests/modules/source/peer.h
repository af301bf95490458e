/* The peer-memory interface of ib_uverbs, in two shapes whose symbol versions differ. */
#ifndef PEER_H
#define PEER_H

struct peer_client {
	const char *name;
#ifdef OTHER_SHAPE
	unsigned long flags;
#endif
	int (*acquire)(unsigned long address, unsigned long size);
};

void *ib_register_peer_memory_client(const struct peer_client *client);
void ib_unregister_peer_memory_client(void *handle);

#endif
