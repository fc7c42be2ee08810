/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libllm_datadist.so: the engine that moves memory between cards by their own network. Mooncake's wheel for
 * Ascend is linked with it.
 *
 * There is no card behind it here. An engine can be made and destroyed; Initialize refuses and says what
 * works instead, and nothing else is called then. The names are those of C++ methods, as compilers encode
 * them.
 */
#include <stdio.h>

#include "boundary.h"

/* Status of the engine's interface: failed. */
enum { FAILED = 503900 };

static uint32_t no_card(const char *method)
{
    static const char why[] = "the device transport has no card behind it: use Mooncake's protocol tcp on "
                              "page-locked memory (docs/two-machines.md)";
    /* The client logs the number alone. */
    fprintf(stderr, "ferry: adxl::AdxlEngine::%s: %s\n", method, why);
    refuse(method, ACL_ERROR_API_NOT_SUPPORT, "%s", why);
    return FAILED;
}

/* AdxlEngine(): the object is the client's, and nothing of it is ours. */
EXPORTED void _ZN4adxl10AdxlEngineC1Ev(void *engine)
{
    (void)engine;
}

/* ~AdxlEngine() */
EXPORTED void _ZN4adxl10AdxlEngineD1Ev(void *engine)
{
    (void)engine;
}

/* Initialize(const AscendString &, const std::map<AscendString, AscendString> &) */
EXPORTED uint32_t
_ZN4adxl10AdxlEngine10InitializeERKN2ge12AscendStringERKSt3mapIS2_S2_St4lessIS2_ESaISt4pairIS3_S2_EEE(
    void *engine, const void *name, const void *options)
{
    (void)engine, (void)name, (void)options;
    return no_card("Initialize");
}

/* Finalize() */
EXPORTED void _ZN4adxl10AdxlEngine8FinalizeEv(void *engine)
{
    (void)engine;
}

/* RegisterMem(const MemDesc &, MemType, void *&) */
EXPORTED uint32_t _ZN4adxl10AdxlEngine11RegisterMemERKNS_7MemDescENS_7MemTypeERPv(void *engine, const void *memory,
                                                                                  int type, void **handle)
{
    (void)engine, (void)memory, (void)type;
    clear(handle, sizeof *handle);
    return no_card("RegisterMem");
}

/* DeregisterMem(void *) */
EXPORTED uint32_t _ZN4adxl10AdxlEngine13DeregisterMemEPv(void *engine, void *handle)
{
    (void)engine, (void)handle;
    return no_card("DeregisterMem");
}

/* Connect(const AscendString &, int) */
EXPORTED uint32_t _ZN4adxl10AdxlEngine7ConnectERKN2ge12AscendStringEi(void *engine, const void *name, int ms)
{
    (void)engine, (void)name, (void)ms;
    return no_card("Connect");
}

/* Disconnect(const AscendString &, int) */
EXPORTED uint32_t _ZN4adxl10AdxlEngine10DisconnectERKN2ge12AscendStringEi(void *engine, const void *name, int ms)
{
    (void)engine, (void)name, (void)ms;
    return no_card("Disconnect");
}

/* TransferSync(const AscendString &, TransferOp, const std::vector<TransferOpDesc> &, int) */
EXPORTED uint32_t
_ZN4adxl10AdxlEngine12TransferSyncERKN2ge12AscendStringENS_10TransferOpERKSt6vectorINS_14TransferOpDescESaIS7_EEi(
    void *engine, const void *name, int op, const void *list, int ms)
{
    (void)engine, (void)name, (void)op, (void)list, (void)ms;
    return no_card("TransferSync");
}
