/* In a header, since genksyms looks into no structure of the source file itself. */
#ifndef PEER_MEMORY_H
#define PEER_MEMORY_H

#define NAME_MAX_LEN 64

/* A client begins with its name; what follows is the client's own. */
struct peer_memory_client {
	char name[NAME_MAX_LEN];
#ifdef OTHER_SHAPE
	unsigned long flags;
#endif
};

#endif
