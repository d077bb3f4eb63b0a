import threading
import time

import pytest

from trt_tts.fair_lock import FairLock


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_threads_are_served_in_the_order_in_which_they_came():
    lock, order, threads = FairLock(), [], []

    def work(number):
        with lock:
            order.append(number)

    with lock:
        assert not lock.wanted
        for number in range(5):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            wait_until(lambda: len(lock._waiting) == number + 1)  # noqa: B023
        assert lock.wanted
        assert order == []
    for thread in threads:
        thread.join()
    assert order == list(range(5))
    assert not lock.wanted
    with lock:
        pass


def test_only_one_is_inside():
    lock, inside, most = FairLock(), [0], [0]

    def work():
        for _ in range(200):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_an_error_inside_lets_go():
    lock = FairLock()
    with pytest.raises(KeyError), lock:
        raise KeyError
    with lock:
        pass


@pytest.mark.parametrize("granted", [False, True])
def test_who_gives_up_waiting_does_not_keep_it(granted, monkeypatch):
    """As Ctrl-C does to a thread that waits; the turn may have come in the same moment."""
    lock = FairLock()

    class Interrupted:
        def acquire(self):
            self.count = getattr(self, "count", 0) + 1
            if self.count == 2:
                if granted:
                    lock.__exit__(None, None, None)
                raise KeyboardInterrupt

        def release(self):
            pass

    lock.__enter__()
    with monkeypatch.context() as patch:
        real = threading.Lock
        patch.setattr("trt_tts.fair_lock.threading.Lock", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock.__enter__()
        assert real is not Interrupted
    assert not lock.wanted
    if not granted:
        lock.__exit__(None, None, None)
    with lock:
        pass


def test_taking_it_without_waiting():
    lock = FairLock()
    assert lock.take_if_free()
    assert not lock.take_if_free()
    lock.release()
    with lock:
        assert not lock.take_if_free()
    with lock._guard:
        assert not lock.take_if_free(), "not even for the bookkeeping"
    assert lock.take_if_free()
    lock.release()
