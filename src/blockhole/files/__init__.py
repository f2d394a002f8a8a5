"""The files graphs come from and go to."""
