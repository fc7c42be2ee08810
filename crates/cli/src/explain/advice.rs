//! Causes of error codes and ways out, as tables: first the codes that Ferry answers, then families of those
//! that it never does.

use std::ops::RangeInclusive;

/// What is known about some codes.
pub struct Advice {
    /// The codes; the first row that has one counts.
    pub codes: &'static [RangeInclusive<i32>],
    /// Whether our library answers them.
    pub ours: bool,
    /// What usually leads there.
    pub causes: &'static [&'static str],
    /// What helps.
    pub ways: &'static [&'static str],
}

/// Where the details of a failed call are.
pub const MESSAGE: &str =
    "aclGetRecentErrMsg() in the same thread names the argument, what was expected and what was given";
const ANOTHER: &str =
    "under Ferry, another library answered: `ferry doctor -- PROGRAM` says which one is found, and by whom";

/// A row of codes that our library answers.
pub const fn ours(
    codes: &'static [RangeInclusive<i32>],
    causes: &'static [&'static str],
    ways: &'static [&'static str],
) -> Advice {
    Advice { codes, ours: true, causes, ways }
}

const fn theirs(
    codes: &'static [RangeInclusive<i32>],
    causes: &'static [&'static str],
    ways: &'static [&'static str],
) -> Advice {
    Advice { codes, ours: false, causes, ways }
}

/// Every code has a row, here or in `captures`; the last one takes what is left.
pub const ADVICE: &[Advice] = &[
    ours(&[0..=0], &["all is well"], &["nothing to do"]),
    ours(
        &[100000..=100000],
        &[
            "a NULL pointer where the function needs memory, a handle or room for its answer",
            "a value outside its enum: a copy kind, a callback type",
            "a FERRY_ variable with a value that makes no sense (from aclInit and aclrtSetDevice)",
        ],
        &[MESSAGE, "`ferry doctor` lists FERRY_ variables that are unknown or wrong"],
    ),
    ours(
        &[107019..=107019],
        &["a stream waited for an event longer than aclrtSetOpWaitTimeout allows: nobody recorded it, or \
             what comes before it takes long"],
        &[
            "record the event before others wait for it, and see that its stream goes on",
            "aclrtSetOpWaitTimeout(0) waits without a limit; the stream goes on after the error, without \
             what it waited for",
        ],
    ),
    ours(
        &[100002..=100002],
        &["aclInit was called before, by the program or by a library that it uses"],
        &["it may be ignored: the first aclInit counts", "if its file matters, let the first caller pass it"],
    ),
    ours(
        &[100003..=100003],
        &["the file that aclInit was given does not exist or cannot be read"],
        &[
            "check the path; a relative one is taken from the folder that the program runs in",
            "pass NULL: there are defaults for everything",
        ],
    ),
    ours(
        &[100005..=100005],
        &["the file of aclInit is larger than 16 MiB"],
        &["check that the path names the right file"],
    ),
    ours(
        &[100006..=100006],
        &["the file of aclInit is no JSON object", "it is nested deeper than ten braces or ten brackets"],
        &[MESSAGE, "check it with `python3 -m json.tool FILE`"],
    ),
    ours(
        &[100008..=100008],
        &["a key of aclInit's file has a bad value: default_device and err_msg_mode are numbers in quotes"],
        &[MESSAGE, "docs/ENVIRONMENT.md, \"The file of aclInit\", has the values"],
    ),
    ours(
        &[100033..=100033],
        &["aclrtSubscribeReport for a stream that has a thread already"],
        &["call aclrtUnSubscribeReport first; one thread serves a stream"],
    ),
    ours(
        &[100037..=100037],
        &["aclFinalize without an aclInit before it, or twice"],
        &["it may be ignored; with several users in a process, aclFinalizeReference counts them"],
    ),
    ours(
        &[107000..=107000],
        &[
            "a copy leaves its allocation, on either side; count is larger than destMax",
            "the kind of a copy contradicts the addresses: a host pointer with ACL_MEMCPY_DEVICE_TO_DEVICE, \
             ...",
            "memory that is freed, unmapped, of another process, or was never allocated",
            "a matrix whose width is larger than a pitch; an asynchronous one over 5,000,000 bytes or \
             5,242,880 rows",
            "a batch whose attributes do not fit the pointers: failIndex names the copy, or is SIZE_MAX for \
             the arrays themselves",
            "from a synchronise: a copy that ran earlier met such memory (a descriptor never set, memory \
             that was freed)",
        ],
        &[
            MESSAGE,
            "look up where each address lives with aclrtPointerGetAttributes",
            "free memory only after the stream that uses it was synchronised",
        ],
    ),
    ours(
        &[107001..=107001],
        &[
            "a device number that is not below aclrtGetDeviceCount",
            "ASCEND_RT_VISIBLE_DEVICES leaves fewer devices than the program wants",
        ],
        &[
            "`ferry devices` shows what there is",
            "FERRY_DEVICES=N, or `ferry run --devices N -- PROGRAM`, gives more",
        ],
    ),
    ours(
        &[107002..=107002],
        &[
            "the thread has no current context: contexts belong to threads, and this one called neither \
             aclrtSetDevice nor aclrtSetCurrentContext",
            "the device was reset, or the context destroyed, by another thread",
            "a child of fork: it cannot use what its parent has opened",
        ],
        &[
            "call aclrtSetDevice in every thread that makes calls",
            "start processes with exec: in Python, multiprocessing with the start method spawn",
        ],
    ),
    ours(
        &[107003..=107003],
        &["a stream or an event of another context or device than the current one"],
        &["make the stream's context current (aclrtSetCurrentContext), or use a stream of the current one"],
    ),
    ours(
        &[107006..=107006],
        &[
            "an event that was never recorded, was reset, or whose work was dropped by an abort",
            "an event made without ACL_EVENT_TIME_LINE",
            "two events of different devices: each device has a clock of its own",
        ],
        &["record both events in streams of one device, synchronise, then ask for the time"],
    ),
    ours(
        &[107007..=107007],
        &["the end event was recorded before the start event"],
        &["check the order of the arguments: start comes first"],
    ),
    ours(
        &[107008..=107008],
        &[
            "aclrtHostRegister with a pointer that is no multiple of 4096, or of FERRY_LIMIT_REGISTER_ALIGN",
            "aclrtValueWrite or aclrtValueWait with an address that is no multiple of 8",
            "acl.rt.memcpy_async_with_condition (Python) with addresses that are no multiples of 64",
        ],
        &[
            "allocate with posix_memalign or mmap, or round the pointer down to its page",
            "aclrtMallocHost gives memory that is aligned and page-locked",
        ],
    ),
    ours(
        &[107011..=107011],
        &["aclrtUnSubscribeReport of a stream that is not bound to this thread"],
        &["pass the thread id that aclrtSubscribeReport had for the stream"],
    ),
    ours(
        &[107012..=107012],
        &[
            "aclrtSubscribeReport with a thread that serves another device",
            "aclrtProcessReport in a thread that no stream is bound to",
        ],
        &["use one thread for each device, and pass its pthread_self()"],
    ),
    ours(
        &[107015..=107015],
        &["aclrtLaunchCallback on a stream without a thread for callbacks"],
        &["call aclrtSubscribeReport first, and aclrtProcessReport in that thread; or use \
             aclrtLaunchHostFunc, which needs none"],
    ),
    ours(
        &[107017..=107017],
        &[
            "a stream, event, context or memory handle that was destroyed",
            "a number that is no handle, or a handle of another kind",
        ],
        &[
            "look for the destroying call: handles are never used again, so a stale one is always found",
            MESSAGE,
        ],
    ),
    ours(
        &[107021..=107021],
        &["aclrtCtxGetSysParamOpt of a parameter that was never set in this context"],
        &["set it, or take the code for \"not set\""],
    ),
    ours(
        &[107022..=107022, 107035..=107035],
        &["a call met aclrtDeviceTaskAbort on its device"],
        &["let aclrtDeviceTaskAbort return before other threads go on"],
    ),
    ours(
        &[107023..=107023],
        &["aclrtStreamAbort or aclrtDeviceTaskAbort ended the work that this call waited for"],
        &["it is no failure of the device: the stream may be used again, the dropped work has to be \
             submitted again"],
    ),
    ours(
        &[107037..=107037],
        &["a graph (aclmdlRI) was to be destroyed while an execution of it was queued or ran"],
        &["synchronise the streams that executed it before aclmdlRIDestroy"],
    ),
    ours(
        &[107040..=107040],
        &["the update of a task group had another number of tasks than the group, or other kinds"],
        &["between TaskUpdateBegin and TaskUpdateEnd submit the tasks of the group, in their order", MESSAGE],
    ),
    ours(
        &[507009..=507009],
        &["a task that a task group of a captured graph does not take: groups are for operators"],
        &["submit copies and fills outside of the group", "FERRY_TASK_GROUPS=copies lets them in, for tests"],
    ),
    ours(
        &[148048..=148048],
        &["max_opqueue_num in aclInit's file is no number above 0 in quotes"],
        &["leave it out: it is about operators, and has no effect here"],
    ),
    ours(
        &[200000..=200000],
        &["the C library has no memory left, for a description of a tensor or its dimensions"],
        &["`ulimit -v` and the limits of the container; descriptions that are not destroyed stay"],
    ),
    ours(
        &[200001..=200001],
        &[
            "an operator, a model or another function that a copy runtime does not have",
            "an operator that failed before: the streams of its context go on failing, so that nothing is \
             silently wrong",
        ],
        &[
            "keep operators on the CPU: Ferry moves memory and computes only reductions",
            "with torch_npu TASK_QUEUE_ENABLE=0 raises in the Python line that calls the operator \
             (docs/clients.md)",
            "aclrtResetDevice ends the failure",
            MESSAGE,
        ],
    ),
    ours(
        &[207000..=207000],
        &[
            "the product or form does not have this function, kind, policy or flag, as documented",
            "something that Ferry cannot do, such as kernels",
        ],
        &[MESSAGE, "FERRY_SOC chooses another product (default Ascend910B1), FERRY_FORM another form"],
    ),
    ours(
        &[207001..=207001, 207018..=207018],
        &[
            "the device's memory is used up: FERRY_DEVICE_MEMORY, or what the GPU has",
            "with FERRY_DEVICE_SHARED=1 other processes of this user have it",
            "the machine refuses more memory: ulimit -v, a container's limit, locked memory",
            "page-locked memory beyond FERRY_LIMIT_HOST_BYTES, or one large call with F8 of FERRY_QUIRKS",
        ],
        &[
            "aclrtGetMemInfo and `ferry devices` show what is free",
            "FERRY_DEVICE_MEMORY=16G, or `ferry run --device-memory 16G -- PROGRAM`",
            "`ferry doctor` shows the limits of this process",
        ],
    ),
    ours(
        &[207005..=207005],
        &[
            "more streams than the product has, or than FERRY_LIMIT_STREAMS allows",
            "more than 1,024 threads for callbacks",
            "the system gives no thread, descriptor or pthread key",
        ],
        &[
            "destroy streams that are no longer used",
            "`ferry doctor` shows the limits of this process (ulimit -n, -u)",
        ],
    ),
    ours(
        &[207006..=207006],
        &["the exporter of shared memory has not named this process"],
        &["the exporter calls aclrtIpcMemSetImportPid or aclrtMemSetPidToShareableHandle with the \
             importer's pid, or exports with the flag that disables the check"],
    ),
    ours(
        &[207007..=207007],
        &["more events than the product has (65,536; fewer on some)"],
        &["destroy events that are no longer used; an event may be recorded again and again"],
    ),
    ours(
        &[207008..=207008],
        &[
            "no stream is left for a graph capture, which takes one of its own and one for each that joins",
            "no stream is left at all, and F12 of FERRY_QUIRKS is on (207005 without it)",
        ],
        &["destroy streams and graphs that are no longer used", "raise or unset FERRY_LIMIT_STREAMS"],
    ),
    ours(
        &[207009..=207009],
        &["more notifies than the product has (8,192; more or fewer on some)"],
        &["destroy notifies that are no longer used; a notify may be recorded again and again"],
    ),
    ours(
        &[500000..=500000],
        &["a defect of Ferry: a call panicked, and the panic was stopped at the border"],
        &["please report it with the text of aclGetRecentErrMsg() and the log (docs/ENVIRONMENT.md, \
             \"Logs\")"],
    ),
    ours(
        &[507006..=507006],
        &["aclrtEventGetTimestamp of an event that is not complete yet"],
        &["synchronise on the event or its stream first"],
    ),
    ours(
        &[507010..=507010],
        &[
            "cuda backend: the GPU or its context is gone: reset, unavailable, driver shut down, link error",
            "a process that was forked from one that uses devices",
        ],
        &["look at the kernel's log and nvidia-smi; the process has to start anew"],
    ),
    ours(
        &[507012..=507012],
        &["aclrtProcessReport waited for its timeout and no callback came"],
        &["call it again: it is how a loop over callbacks idles"],
    ),
    ours(
        &[507015..=507015],
        &[
            "cuda backend: a kernel in this process touched memory that is nobody's, or took too long",
            "not necessarily one of Ferry's: streams are shared with other libraries",
        ],
        &[
            "run the program under compute-sanitizer",
            "the GPU's context is lost: the process has to start anew",
        ],
    ),
    ours(
        &[507022..=507022],
        &[
            "memory between processes: the exporter has ended, or does not answer",
            "threads, descriptors or sockets for sharing are refused by the system",
        ],
        &[
            "keep the exporter alive until the importer has closed",
            "docs/IPC.md has the rules; `ferry doctor` shows the limits",
        ],
    ),
    ours(
        &[507046..=507046, 507047..=507047],
        &[
            "the work was not done within the timeout of the call",
            "a stream waits for an event that nobody records, or for a callback that nobody runs",
        ],
        &[
            "wait longer, or with -1 for ever",
            "check that what the stream waits for is on its way: aclrtStreamQuery, aclrtQueryEventStatus",
        ],
    ),
    ours(
        &[507054..=507054],
        &["cuda backend: the GPU's memory has an error that could not be corrected"],
        &["nvidia-smi -q -d ECC shows it; the GPU needs a reset or a repair"],
    ),
    ours(
        &[507899..=507899],
        &[
            "the CUDA driver refused a call for a reason that fits no other code",
            "the kernel gives no way to tell forked children apart (no descriptors, no memory)",
            "F3, F4 or F9 of FERRY_QUIRKS is on, and the call is one that fails on real cards",
        ],
        &[MESSAGE, "`ferry copy FILE COPY --backend cuda` tries the GPU alone"],
    ),
    ours(
        &[507910..=507910],
        &["aclrtHostRegister of memory that is registered, wholly or in part"],
        &["unregister it first, or register it once for the whole life of the buffer"],
    ),
    ours(
        &[507911..=507911],
        &["aclrtHostUnregister of a pointer that was not registered: it must be the one that was"],
        &["pass the pointer that aclrtHostRegister had, once"],
    ),
    theirs(
        &[100001..=100001],
        &["a feature's functions before its own init"],
        &["call aclInit first. Ferry's functions work without it", ANOTHER],
    ),
    theirs(
        &[100039..=100039],
        &["the program loaded the stub library of a toolkit, which is only there to be linked with \
             (devlib, stub)"],
        &["source set_env.sh, or start it by `ferry run --`", ANOTHER],
    ),
    theirs(
        &[
            100011..=100019,
            107004..=107005,
            148053..=148053,
            207010..=207010,
            507011..=507011,
            507023..=507023,
        ],
        &["a model: its id, file, size, input or output is not what it must be"],
        &["Ferry runs no models: run what needs one on a CPU framework", ANOTHER],
    ),
    theirs(
        &[100020..=100031, 148050..=148050, 207019..=207019, 500002..=500002],
        &["an operator: not found, not loaded, or called with types, formats or attributes that it does \
             not take"],
        &["Ferry has no operators: keep them on the CPU", ANOTHER],
    ),
    theirs(
        &[
            100009..=100010,
            100042..=100045,
            148046..=148047,
            200007..=200007,
            500005..=500005,
            507019..=507019,
            507021..=507021,
        ],
        &["dumping or profiling: its settings, or the order of its calls"],
        &["leave dump and profiler settings out: they have no effect here", ANOTHER],
    ),
    theirs(
        &[
            100032..=100032,
            100040..=100041,
            107013..=107014,
            207011..=207015,
            507025..=507026,
            507051..=507052,
        ],
        &["queues or groups: not created, full, empty, or too many"],
        &["Ferry has neither: check that the program needs them", ANOTHER],
    ),
    theirs(
        &[100034..=100036, 100038..=100038, 200002..=200005],
        &["an old spelling of a code that runtimes answer by a newer number now"],
        &["`ferry explain` the code that the meaning names", ANOTHER],
    ),
    theirs(
        &[107009..=107010, 100004..=100004, 100007..=100007, 300000..=300000],
        &["a file could not be opened or written, or lacks an entry; a disk is full"],
        &["check paths and rights; logs that cannot be written fail no call of Ferry's", ANOTHER],
    ),
    theirs(
        &[
            107016..=107016,
            107018..=107018,
            107020..=107020,
            200006..=200006,
            207002..=207002,
            207004..=207004,
            207021..=207021,
        ],
        &["an argument, a limit or a resource of the runtime"],
        &[
            "Ferry says it by another code: 107000 (argument), 207000 (not supported), 207001 (memory), \
             207005 (resources), 507046 (timeout)",
            ANOTHER,
        ],
    ),
    theirs(
        &[107039..=107039, 107042..=107044],
        &["a caller's array is too small, or a symbol or kernel is not known"],
        &["Ferry has no symbols and no kernels", ANOTHER],
    ),
    theirs(
        &[148049..=148049],
        &["ASCEND_OPP_PATH is not set, or names no folder"],
        &["source set_env.sh of the installed tree, or start the program by `ferry run --`", ANOTHER],
    ),
    theirs(
        &[148051..=148052],
        &["something that depends on the object is alive still, or a picture has a form that is not \
             supported"],
        &["end what depends on it first", ANOTHER],
    ),
    theirs(
        &[507905..=507909, 507912..=507913],
        &["snapshots of a process: lock, backup, restore or a callback failed"],
        &["Ferry has no snapshots", ANOTHER],
    ),
    theirs(
        &[145000..=145022, 245000..=245002, 345102..=345104, 545000..=545602],
        &["the graph engine, which loads and runs models"],
        &["Ferry has no graph engine", ANOTHER],
    ),
    theirs(
        &[574006..=574009],
        &["the operator library's stress test found a fault of an NPU"],
        &["on an NPU: take the card out of service", ANOTHER],
    ),
    theirs(
        &[0..=i32::MAX],
        &["the hardware, the driver or the firmware of an NPU: its cores, links, memory or task scheduler"],
        &["on an NPU: look at the device's log and at npu-smi", ANOTHER],
    ),
];
