"""The plan: what a series makes of a source. Pure: no I/O, no printing, no clock."""

from pkgtools.plan.match import Placement
from pkgtools.plan.model import Change, Nearest, Plan, Reason, Rejection, Step
from pkgtools.plan.series import plan_series

__all__ = ["Change", "Nearest", "Placement", "Plan", "Reason", "Rejection", "Step", "plan_series"]
