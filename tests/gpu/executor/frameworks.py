#!/usr/bin/env python3
"""Memory of a process that runs PyTorch or CuPy, used by kernels of the daemon's executor, without a copy.

usage: frameworks.py SOCKET LIBFUSIOND DEVICE

Legacy IPC: what framework allocators give today, a cudaMalloc block as base and offset. VMM: an allocation of this
process with a POSIX descriptor. Both ways round: a buffer of the executor, exported and mapped here. The kernel doubles
each number; this process computes the same and compares every one. Prints one line per path; exit 77 when there is no
framework.
"""
import ctypes as c
import sys

SOCKET, LIBRARY, DEVICE = sys.argv[1].encode(), sys.argv[2], sys.argv[3].encode()
N = 1 << 20
f = c.CDLL(LIBRARY)
cu = c.CDLL("libcuda.so.1")

CODE = b"""__global__ void twice(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out) {
  nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < x.logical_size[0]) out[i] = 2.0f * x[i];
}
"""


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("name", c.c_char_p), ("retryable", c.c_bool), ("text", c.c_char * 512)]


class Memory(c.Structure):
    _fields_ = [("kind", c.c_int), ("fd", c.c_int), ("handle", c.c_char * 64), ("offset", c.c_uint64),
                ("size", c.c_uint64), ("allocation_size", c.c_uint64)]


class Argument(c.Structure):
    _fields_ = [("buffer", c.c_void_p), ("offset", c.c_uint64), ("sizes", c.c_void_p), ("strides", c.c_void_p),
                ("scalar", c.c_void_p), ("scalar_size", c.c_size_t)]


class Options(c.Structure):
    _fields_ = [("stream", c.c_void_p), ("launch", c.c_void_p), ("force", c.c_bool), ("wait", c.c_bool),
                ("fill", c.c_int)]


error = Error()


def call(name, *arguments):
    if getattr(f, name)(*arguments, c.byref(error)) < 0:
        sys.exit(f"{name}: {error.name.decode()}: {error.text.decode()}")


def driver(name, *arguments):
    result = getattr(cu, name)(*arguments)
    if result:
        sys.exit(f"{name}: {result}")


def made(name, *arguments):
    """What a function returns through its last pointer but the error."""
    pointer = c.c_void_p()
    call(name, *arguments, c.byref(pointer))
    return pointer


def words(*texts):
    return (c.c_char_p * len(texts))(*texts)


connection = made("fusiond_connect", SOCKET, None)
device = made("fusiond_device_open", connection, DEVICE, None)
f.fusiond_device_target.restype = c.c_char_p
f.fusiond_kernel_key.restype = c.c_char_p
f.fusiond_fusion_create.restype = c.c_void_p
fusion = c.c_void_p(f.fusiond_fusion_create())
call("fusiond_fusion_set_code", fusion, CODE, c.c_size_t(len(CODE)), c.c_bool(False))
call("fusiond_fusion_add_entry", fusion, b"twice")
call("fusiond_fusion_set_target", fusion, f.fusiond_device_target(device))
call("fusiond_fusion_set_option", fusion, b"index_type", b"int32")
call("fusiond_fusion_add_param", fusion, b"x", 1, 12, 1, 1)
call("fusiond_fusion_add_param", fusion, b"out", 3, 12, 1, 1)
call("fusiond_fusion_add_output", fusion, b"out", words(b"x.size[0]"), 1)
call("fusiond_fusion_set_launch", fusion, words(b"ceilDiv(x.size[0], 256)", None, None), words(b"256", None, None),
     None)
kernel = made("fusiond_compile", connection, fusion, None)
defined = made("fusiond_define", device, f.fusiond_kernel_key(kernel), None, fusion)
size = c.c_int64(N)


def twice(x, out):
    """Launch, and wait."""
    arguments = (Argument * 2)(Argument(buffer=x, sizes=c.addressof(size)), Argument(buffer=out))
    call("fusiond_device_launch", defined, arguments, c.c_size_t(2), c.byref(Options(wait=True)), None)


def imported(kind, offset, size, fd=-1, handle=b"\0" * 64, allocation=0):
    memory = Memory(kind=kind, fd=fd, offset=offset, size=size, allocation_size=allocation)
    c.memmove(c.addressof(memory) + Memory.handle.offset, handle, 64)
    return made("fusiond_buffer_import", device, c.byref(memory))


MEMFD, VMM_FD, IPC = 1, 2, 3


def ipc_of(address):
    """The handle of the block that holds the address, and how far in it lies."""
    base, block, handle = c.c_uint64(), c.c_size_t(), (c.c_char * 64)()
    driver("cuMemGetAddressRange_v2", c.byref(base), c.byref(block), c.c_uint64(address))
    driver("cuIpcGetMemHandle", handle, base)
    return bytes(handle.raw), address - base.value


def through_ipc(name, x, out, check):
    """x and out: (address, bytes) of arrays of the framework."""
    buffers = []
    for address, bytes_ in (x, out):
        handle, offset = ipc_of(address)
        buffers.append(imported(IPC, offset, bytes_, handle=handle))
    twice(*buffers)
    wrong = check()
    print(f"{name}: legacy IPC, {N} numbers, {wrong} wrong")
    for buffer in buffers:
        f.fusiond_buffer_free(buffer)
    return wrong


class Location(c.Structure):
    _fields_ = [("type", c.c_int), ("id", c.c_int)]


class Allocation(c.Structure):
    _fields_ = [("type", c.c_int), ("handles", c.c_int), ("location", Location), ("win32", c.c_void_p),
                ("flags", c.c_ubyte * 8)]


class Access(c.Structure):
    _fields_ = [("location", Location), ("flags", c.c_int)]


def mapped(handle, size):
    address = c.c_uint64()
    driver("cuMemAddressReserve", c.byref(address), c.c_size_t(size), c.c_size_t(0), c.c_uint64(0), c.c_uint64(0))
    driver("cuMemMap", address, c.c_size_t(size), c.c_size_t(0), handle, c.c_uint64(0))
    driver("cuMemSetAccess", address, c.c_size_t(size), c.byref(Access(Location(1, 0), 3)), c.c_size_t(1))
    return address


def filled(address):
    numbers = (c.c_float * N)(*range(N))
    driver("cuMemcpyHtoD_v2", address, numbers, c.c_size_t(4 * N))


def wrong_at(address):
    numbers = (c.c_float * N)()
    driver("cuMemcpyDtoH_v2", numbers, address, c.c_size_t(4 * N))
    return sum(numbers[i] != 2.0 * i for i in range(N))


def through_vmm():
    """Memory of this process, one half of an allocation in, the other out; then the executor's own, mapped here."""
    total = 16 << 20
    handle, fd = c.c_uint64(), c.c_int(-1)
    allocation = Allocation(type=1, handles=1, location=Location(1, 0))
    driver("cuMemCreate", c.byref(handle), c.c_size_t(total), c.byref(allocation), c.c_uint64(0))
    address = mapped(handle, total)
    driver("cuMemExportToShareableHandle", c.byref(fd), handle, 1, c.c_uint64(0))
    filled(address)
    half = total // 2
    x, out = (imported(VMM_FD, at, 4 * N, fd=fd.value, allocation=total) for at in (0, half))
    twice(x, out)
    wrong = wrong_at(c.c_uint64(address.value + half))
    print(f"VMM descriptor of this process: {N} numbers, {wrong} wrong")
    buffer = c.c_void_p()
    call("fusiond_buffer_allocate", device, c.c_uint64(4 * N), c.c_bool(True), c.byref(buffer))
    memory = Memory()
    call("fusiond_buffer_export", buffer, c.byref(memory))
    driver("cuMemImportFromShareableHandle", c.byref(handle), c.c_void_p(memory.fd), 1)
    there = mapped(handle, memory.size)
    twice(x, buffer)
    more = wrong_at(there)
    print(f"VMM descriptor of the executor: {N} numbers, {more} wrong")
    return wrong + more


failures = 0
frameworks = 0
try:
    import torch
    frameworks += 1
    torch.cuda.init()
    padding = torch.empty(12345, device="cuda")  # so that what follows does not begin its block
    a, b = torch.arange(N, dtype=torch.float32, device="cuda"), torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    failures += through_ipc("PyTorch", (a.data_ptr(), 4 * N), (b.data_ptr(), 4 * N),
                            lambda: int((b != 2 * a).sum().item()))
except ImportError:
    print("PyTorch is not here")
try:
    import cupy
    frameworks += 1
    padding = cupy.empty(12345, dtype=cupy.float32)
    p, q = cupy.arange(N, dtype=cupy.float32), cupy.zeros(N, dtype=cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    failures += through_ipc("CuPy", (p.data.ptr, 4 * N), (q.data.ptr, 4 * N), lambda: int((q != 2 * p).sum()))
except ImportError:
    print("CuPy is not here")
if not frameworks:
    sys.exit(77)
failures += through_vmm()
sys.exit(1 if failures else 0)
