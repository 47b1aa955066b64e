/* The translation unit that the compiler gets: the fusion's code and what stands around it. */
#ifndef DAEMON_RESOLVE_SOURCE_H
#define DAEMON_RESOLVE_SOURCE_H

#include "daemon/resolve/resolve.h"

/* The namespace around unstructured code, and what its entries are called from outside. */
#define SOURCE_NAMESPACE "fusiond"
#define SOURCE_PREFIX SOURCE_NAMESPACE "::"

/*
 * Structured code, and unstructured code that uses nothing of the preamble, gets no includes. Otherwise the index
 * module comes first and then the closure of the identifiers used, each included exactly once:
 *
 *     #include "fusiond/index_int32.cuh"
 *     #include "fusiond/tensor.cuh"
 *     #line 1 "compile.defines"
 *     #define UNROLL 4
 *     namespace fusiond {
 *     #line 1 "fusion.cu"
 *     <code>
 *     }
 *
 * For the host device (image_kind of *ret) the host header comes before all else, and the image's table of entries
 * last; preamble/host/abi.h has the agreement. Structured code gets both, too.
 *
 * Includes stand in front of everything, definitions too, as precompiled headers need it. The namespace has a name, so
 * that the lowered names of kernels are the same in every process. Structured code is just `#line 1 "fusion.cu"` and
 * the code.
 *
 * The code and the entries are those of *ret, with placeholders for names.
 *
 * Sets program, code_at, modules, n_modules, names, n_names, and index_type: index_type_absent when no module is in
 * front, as the code then cannot depend on it. */
int source_write(const struct fusion *fusion, enum index_type index_type, msgpack_zone *zone, struct resolved *ret,
                 struct error *error);

#endif
