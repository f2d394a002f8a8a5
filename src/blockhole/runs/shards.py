"""Sharded checkpoints: a folder of safetensors files, one per process, written by torch.distributed.checkpoint.

Each file says in its header which rows it holds, so that any number of processes reads the folder, one included. The
default format of torch would keep that in a pickle.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from blockhole.errors import DamagedRun


def write_shards(folder: Path, tensors: dict[str, Tensor], group: dist.ProcessGroup) -> Future[Any]:
    """Begin to write the tensors of all processes into `folder`; the tensors themselves may change at once.

    `group` must serve nothing else: the write goes on beside training and talks over it.
    """
    # The staging of torch copies what lies on a GPU, but lends what lies on the CPU to the writing thread.
    copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    response = async_save(copies, storage_writer=writer, process_group=group)
    assert isinstance(response, Future)
    return response


def load_shards(folder: Path, tensors: dict[str, Tensor], group: dist.ProcessGroup | None = None) -> None:
    """Fill `tensors`, whole or sharded over any mesh, from a checkpoint; every process of `group` calls it."""
    reader = HuggingFaceStorageReader(str(folder))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
            load(tensors, storage_reader=reader, process_group=group, no_dist=group is None)
    except (CheckpointException, Exception) as failure:  # the former is a BaseException
        raise _damaged(folder, failure) from None


def read_shards(folder: Path, section: str) -> dict[str, Tensor]:
    """The tensors SECTION.NAME of a checkpoint by name, put together in one process."""
    try:
        metadata = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
        tensors = {
            name: torch.empty(entry.size, dtype=entry.properties.dtype)
            for name, entry in metadata.items()
            if name.startswith(f"{section}.") and isinstance(entry, TensorStorageMetadata)
        }
    except Exception as failure:  # torch believes the headers: a damaged one fails wherever it is used
        raise _damaged(folder, failure) from None
    load_shards(folder, dict(tensors))
    return {name.removeprefix(f"{section}."): tensor for name, tensor in tensors.items()}


def _damaged(folder: Path, failure: BaseException) -> DamagedRun:
    reason = str(failure).strip().splitlines()
    return DamagedRun(
        f"the sharded checkpoint {folder} cannot be read ({reason[0] if reason else type(failure).__name__}); "
        "restore the folder from a copy, or train again into another folder."
    )
