/* The entry points of nvidia that nvidia-peermem calls. */
#ifndef P2P_H
#define P2P_H

int nvidia_p2p_get_pages(unsigned long address, unsigned long length);
int nvidia_p2p_get_pages_persistent(unsigned long address, unsigned long length, int flags);
int nvidia_p2p_put_pages(unsigned long address);

#endif
