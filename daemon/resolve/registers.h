/* The register limit of a block size, known without a GPU. */
#ifndef DAEMON_RESOLVE_REGISTERS_H
#define DAEMON_RESOLVE_REGISTERS_H

#define BLOCK_THREADS 1024u /* threads per block, on every architecture */
#define REGISTER_MAX 255u   /* registers per thread that an instruction can name */

/* Registers per thread that keep one block of `block_size` threads resident on `capability` (× 10): 168, 128, 96, 80,
 * 72 or 64 where a multiprocessor has four partitions; 255 when even the most that a thread can have fit.
 * block_size is 1 to 1024. Block sizes with one result are one class. */
unsigned register_class(unsigned capability, unsigned block_size);

/* The limit to send: the smaller of the class of block_size (0: not known) and max_registers (0: none); 0 when that
 * is 255 and so no limit. */
unsigned register_limit(unsigned capability, unsigned block_size, unsigned max_registers);

#endif
