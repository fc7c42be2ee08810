"""What Ferry brings for other Python packages, beside the module acl."""
