"""What acts on a tree: apply, reverse, recover, verify, status, and the receipt."""
