"""A fit can be repeated on another machine, bit for bit, from what was opened.

The other machine is another process: the BLAS kernels of other processors, one thread,
and NumPy without its vector instructions.
"""

import pytest

from support.replayed_fits import cases, elsewhere, recorded, replayed

HASWELL = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
PRESCOTT = {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "1"}
PLAIN = {
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "2",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL "
    "AVX512_ICL AVX2 FMA3",
}
MACHINES = {"haswell": HASWELL, "prescott": PRESCOTT, "without vectors": PLAIN}


@pytest.fixture(scope="module")
def transcripts():
    """Every fit as this machine had it; the others only read what was recorded."""
    return {name: recorded(*case) for name, case in cases().items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("machine", list(MACHINES))
def test_every_fit_is_the_same_on_another_machine(tmp_path, transcripts, machine):
    assert elsewhere(transcripts, tmp_path, MACHINES[machine]) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_differs_is_noticed():
    make, program = cases()["pca"]
    transcript = recorded(make, program)
    transcript.results[0]["total"][0] += 1e-9

    with pytest.raises(AssertionError, match=r"local_squares: array public\.mean"):
        replayed(make, program, transcript)
