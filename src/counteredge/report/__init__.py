"""What a sweep found, for people: tables beside the paper's figures, figures, and one HTML page."""
