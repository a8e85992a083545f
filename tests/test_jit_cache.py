"""The disk cache of compiled kernels."""

import copy
import pickle

import pytest

from drsub_fast import _jit
from drsub_fast._vector import dot


@pytest.mark.skipif(_jit.CACHE_FOLDER is None, reason="no cache is in use")
def test_an_index_of_another_version_of_the_package_is_not_unpickled(tmp_path):
    index = copy.copy(dot._cache._cache_file)
    index._cache_path = str(tmp_path)
    index._index_path = tmp_path / "index"
    unreadable = b"cdrsub_fast.no_such_module\nGone\n."
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(unreadable)
    index._index_path.write_bytes(pickle.dumps(index._version.replace(_jit._DIGEST, "0" * 64)) + unreadable)
    assert index.load("key") is None
    index.save("key", "data")
    assert index.load("key") == "data"
