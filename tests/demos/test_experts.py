import numpy as np
import pytest

from irlax.demos import expert_demos, experts, npz
from irlax.demos.demonstrations import from_rows


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    demos = from_rows(
        None, np.zeros(3, int), np.array([1, 2]), observations=np.zeros((3, 4)), rewards=np.array([1.0, 2.0, 3.0])
    )
    npz.save(tmp_path / "mountain-car.npz", demos)
    monkeypatch.setattr(experts, "_FOLDER", tmp_path)


def test_a_file_that_ships_is_read_with_its_returns(shipped):
    assert expert_demos("mountain-car").returns.tolist() == [1, 5]


def test_a_name_without_a_file_is_met_with_those_that_have_one(shipped, as_a_user):
    with pytest.raises(ValueError, match=r"for 'mountain_car'. Did you mean 'mountain-car'\?.*envs.collect"):
        expert_demos("mountain_car")
    with pytest.raises(TypeError, match="must be the name of an environment"):
        expert_demos(1)


def test_the_folder_of_the_package_is_there():
    assert experts._FOLDER.is_dir()
