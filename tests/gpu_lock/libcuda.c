/* A CUDA driver that finds no device (status 100): with it, packages that link the driver can be imported without one. */
typedef int Status;
#define FAILS(name) Status name(void) { return 100; }
FAILS(cuCtxGetCurrent) FAILS(cuCtxSetCurrent) FAILS(cuDeviceGetAttribute) FAILS(cuDevicePrimaryCtxRetain)
FAILS(cuGetErrorString) FAILS(cuGetProcAddress_v2) FAILS(cuInit) FAILS(cuMemAddressFree) FAILS(cuMemAddressReserve)
FAILS(cuMemCreate) FAILS(cuMemGetAllocationGranularity) FAILS(cuMemMap) FAILS(cuMemRelease) FAILS(cuMemSetAccess)
FAILS(cuMemUnmap) FAILS(cuPointerGetAttribute) FAILS(cuTensorMapEncodeTiled)
Status cuDriverGetVersion(int *version) { *version = 13000; return 0; }
