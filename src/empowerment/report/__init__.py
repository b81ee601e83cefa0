"""The page: one self-contained HTML file from run directories, figures, tables, episodes and
claims."""

from .page import build_report
from .playback import save_playback

__all__ = ["build_report", "save_playback"]
