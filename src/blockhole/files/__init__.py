"""The files graphs come from and go to: formats, readers, writers, frames."""
