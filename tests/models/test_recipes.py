import pytest

from counteredge.errors import InputError
from counteredge.models import RECIPES, Recipe
from counteredge.models.recipes import parse_recipes, recipe_name


def test_overrides_replace_keys_for_their_protocol_only():
    text = """
    [Mine]
    paper_accuracy = 0.5
    conv = "gin"
    epochs = 7
    lr = 1

    [Mine.paper]
    epochs = 9

    [Mine.heldout]
    validation = 0.1
    """
    mine = parse_recipes(text)["Mine"]
    assert mine.paper_accuracy == 0.5
    assert mine.of("paper") == Recipe(conv="gin", epochs=9, lr=1)
    assert mine.of("heldout") == Recipe(conv="gin", epochs=7, lr=1, validation=0.1)
    with pytest.raises(InputError, match="heldout, paper, got 'both'"):
        mine.of("both")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[A]\nepoch = 3", "unknown key 'epoch'; did you mean 'epochs'"),
        ("[A]\nzzz = 3", "unknown key 'zzz'. Known: conv"),
        ("[A.heldout]\ngaol = 0.5", r"\[A.heldout\]: unknown key 'gaol'; did you mean 'goal'"),
        ("[A.papr]\nepochs = 3", "unknown key 'papr'; did you mean 'paper'"),
        ("[A.paper]\npaper_accuracy = 0.5", "unknown key 'paper_accuracy'"),
        ("[A.paper]\nhidden = 5", "unknown key 'hidden'"),
        ("A = 3", "must be a table"),
        ("[A]\nepochs = 'many'", "epochs must be of type int, got 'many'"),
        ("[A]\nepochs = true", "epochs must be of type int, got True"),
        ("[A]\ntrain_graphs = 1.5", "train_graphs must be of type int"),
        ("[A]\nepochs = 0", "epochs and batch_size must be 1 or more"),
        ("[A]\nvalidation = 1.0", "validation must be in"),
        ("[A]\ntrain_graphs = 1", "train_graphs must be 2 or more"),
        ("[A", "no TOML"),
    ],
)
def test_what_does_not_belong_is_refused(text, told):
    with pytest.raises(InputError, match=told):
        parse_recipes(text)


def test_shipped_recipes():
    assert {"MUTAG", "Tree-Cycles"} <= RECIPES.keys()
    for name, recipe in RECIPES.items():
        assert recipe_name(name.upper()) == name
        assert recipe.heldout.task == recipe.paper.task
        # the paper protocol has a goal, and it is one that suffices (BBBP's is the most that can be reached)
        if recipe.paper_accuracy is not None and name != "BBBP":
            assert recipe.paper.goal >= recipe.paper_accuracy
    mutag = RECIPES["MUTAG"].heldout
    assert (mutag.conv, mutag.layers) == ("gcn", 3)


def test_unknown_name():
    with pytest.raises(InputError, match="did you mean 'Tree-Cycles'"):
        recipe_name("Tree-Cycle")
