"""What Ferry brings for other Python packages, beside the module acl.

PYTEST_DONT_REWRITE: ferry_acl.pth has imported this before pytest could rewrite its assertions, of which there are none.
"""
