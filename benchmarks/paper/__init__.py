"""The paper's experiments, its peers and its figures; needs the extra `[bench]`."""

from benchmarks.paper.studies import STUDIES, failures, reproduce

__all__ = ["STUDIES", "failures", "reproduce"]
