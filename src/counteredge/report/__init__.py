"""What a sweep found, for people: tables beside the paper's figures, figures, and one HTML page."""

from counteredge.report.figures import FIGURES, write_figures
from counteredge.report.page import write_page
from counteredge.report.published import paper_value, published
from counteredge.report.tables import write_tables
from counteredge.report.write import write_report

__all__ = [
    "FIGURES",
    "paper_value",
    "published",
    "write_figures",
    "write_page",
    "write_report",
    "write_tables",
]
