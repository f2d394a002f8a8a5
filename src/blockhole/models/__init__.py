"""The models of the paper, one file each."""
