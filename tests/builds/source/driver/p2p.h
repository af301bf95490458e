/* In a header, since genksyms looks into no structure of the source file itself. */
#ifndef P2P_H
#define P2P_H

struct nvidia_p2p_page_table {
	unsigned int version;
#ifdef OTHER_SHAPE
	unsigned long flags;
#endif
};

#endif
