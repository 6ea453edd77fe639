"""Molecules: from a graph and the meaning of its columns to RDKit, and what chemistry asks of an answer.

RDKit is imported only when a function here is called. *Valid* always means both: ``Chem.SanitizeMol`` takes the
molecule, and ``Chem.MolFromSmiles`` reads back what ``Chem.MolToSmiles`` writes of it. Some only do the first.
"""

from counteredge.chemistry.legal import Chemistry
from counteredge.chemistry.reading import elements_by_number, molecule, new_bonds, valid_molecule

__all__ = ["Chemistry", "elements_by_number", "molecule", "new_bonds", "valid_molecule"]
