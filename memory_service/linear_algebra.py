"""How many threads numpy's linear algebra takes in a process that answers questions: one."""

from functools import cache

from threadpoolctl import threadpool_limits


@cache
def on_one_thread() -> None:
    """For good. The matrices are small, and beside a training that keeps the processor busy threads of a
    linear algebra library wait for one another (solving 384 observations took 11 s, on one thread 1.4). Set
    once: looking for the libraries anew before each solution was 6 % of a busy server's time."""
    threadpool_limits(limits=1, user_api="blas")
