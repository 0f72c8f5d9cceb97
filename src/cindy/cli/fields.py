"""cindy fit for fields: netCDF files, or a basis such as "pde:3,4"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cindy
from cindy.cli import screen, texts
from cindy.cli.settings import FitSettings
from cindy.data import NETCDF, Field

__all__ = ["are_fields", "for_fields", "read_fields", "show_fields"]


def are_fields(settings: FitSettings) -> bool:
    """Whether the files hold fields: netCDF does, and what a basis of derivatives is asked for."""
    return "pde" in settings.basis or any(Path(f).suffix.lower() in NETCDF for f in settings.data)


def for_fields(settings: FitSettings) -> FitSettings:
    """The settings with what fields take where nothing else was said."""
    usual = FitSettings()
    basis = "pde:3,4" if settings.basis == usual.basis else settings.basis
    form = "weak" if settings.formulation == usual.formulation else settings.formulation
    return replace(settings, basis=basis, formulation=form)


def read_fields(settings: FitSettings) -> list[Field]:
    """Every file as a field; values are read when they are needed."""
    periodic = () if settings.periodic is None else texts.names(settings.periodic, "--periodic")
    inputs = () if settings.inputs is None else texts.names(settings.inputs, "--inputs")
    time = settings.time or "t"
    return [
        cindy.Field(file, periodic=periodic, inputs=inputs, time=time, name=Path(file).stem)
        for file in settings.data
    ]


def show_fields(files: Sequence[str], fields: Sequence[Field]) -> None:
    """What the grids are."""
    screen.section("Data")
    for file, field in zip(files, fields, strict=True):
        grid = " × ".join(
            f"{n} {axis}" for axis, n in zip((*field.axes, field.time), field.shape, strict=True)
        )
        around = [axis for axis in field.axes if field.period(axis) is not None]
        known = f"; inputs {', '.join(field.inputs)}" if field.inputs else ""
        told = f"; periodic in {', '.join(around)}" if around else ""
        screen.plain(f"{file}: {', '.join(field.states)} on {grid}{told}{known}")
