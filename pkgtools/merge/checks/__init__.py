"""What a merge may have broken: each check looks for one kind of fault."""
