"""Versions of packages."""

def get_version_str(pkgName: str, /) -> tuple[str, int]:
    """Tells the version of a package."""
