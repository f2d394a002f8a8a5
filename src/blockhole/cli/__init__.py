"""The command line: options and printing, nothing else. Each chapter defines the verbs that are read together."""
