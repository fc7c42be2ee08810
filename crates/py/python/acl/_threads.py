"""Threads of acl.util.start_thread. In Python, since native frames should not be on the stack while Python waits."""

import threading


def start(func, args_list):
    """Starts a thread that calls func(args_list). Returns it and its id, as the operating system has it."""
    thread = threading.Thread(target=func, args=(args_list,), daemon=True)
    thread.start()
    return thread, thread.ident
