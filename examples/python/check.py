"""What every example does with what a call returns: take the outputs, or say what failed and why, and end."""

import sys
import traceback

import acl


def check(result):
    """The outputs of a call without its code: nothing, one, or a tuple."""
    *outputs, ret = result if isinstance(result, tuple) else (result,)
    if ret != 0:
        line = traceback.extract_stack(limit=2)[0].line
        sys.exit(f"{line} returned {ret}\n{acl.get_recent_err_msg() or ''}")
    return outputs[0] if len(outputs) == 1 else tuple(outputs) or None
