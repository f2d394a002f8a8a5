"""The paper's experiments: declared, run, recorded, and shown beside the paper's figures."""
