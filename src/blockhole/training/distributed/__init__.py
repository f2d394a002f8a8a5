"""Training by several processes that each hold a part of the entity table, on torch.distributed."""
