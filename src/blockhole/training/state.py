"""How far a run has come: all that the loop remembers beyond weights and optimizer."""

from __future__ import annotations

from typing import final

from pydantic import BaseModel, ConfigDict, Field


@final
class TrainingState(BaseModel):
    """A place in a run, between two batches. The loop counts it on; state.json holds a copy of it."""

    model_config = ConfigDict(extra="forbid")

    epoch: int = Field(default=0, ge=0, description="epochs completed")
    batch: int = Field(default=0, ge=0, description="batches done of the epoch under way")
    epoch_loss: float = Field(default=0.0, description="sum of the losses of the positives seen in the epoch under way")
    epoch_paths: int = Field(default=0, ge=0, description="positives seen in the epoch under way")
    paths: int = Field(default=0, ge=0, description="positives seen in all")
    seconds: float = Field(default=0.0, ge=0, description="time spent training, without validation and saving")
    last_loss: float | None = Field(default=None, description="mean loss per positive of the last complete epoch")
    best_figure: float | None = Field(default=None, description="best validation figure so far")
    best_epoch: int | None = Field(default=None, description="the number of epochs it was reached after")
    since_best: int = Field(default=0, ge=0, description="measurements since the best one")
    stopped_early: bool = Field(default=False, description="whether early stopping has ended the run")

    @property
    def loss(self) -> float | None:
        """Mean loss per positive of the last complete epoch, or of the first one's part that is done."""
        if self.last_loss is None and self.epoch_paths:
            return self.epoch_loss / self.epoch_paths
        return self.last_loss

    def __str__(self) -> str:
        return f"epoch {self.epoch}" + (f" and {self.batch} batches" if self.batch else "")
