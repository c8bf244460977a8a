# SPDX-License-Identifier: Apache-2.0
"""What becomes of a launch: the results by rank, or an exception that says which rank failed, and how."""

import base64
import json
import pickle
import signal


class LaunchError(RuntimeError):
    """The job did not start, or did not end well.

    status    hvdrun's exit status; None when it was killed before it could tell
    messages  what hvdrun and srun said, lines
    """

    def __init__(self, text, status=None, messages=()):
        RuntimeError.__init__(self, text)
        self.status = status
        self.messages = list(messages)

    def __reduce__(self):
        return (type(self), (str(self), self.status, self.messages))


class RankError(LaunchError):
    """A rank raised an exception, or ended without a result. Its exception is __cause__, where it could be pickled.

    rank, host   which
    how          how its process ended ("killed by signal 9 (SIGKILL)"), or None when it raised
    traceback    the rank's own, a text; None when it did not raise
    errors       {rank: traceback} of all ranks that raised
    """

    def __init__(self, text, status=None, messages=(), rank=-1, host="", how=None, traceback=None, errors=None):
        LaunchError.__init__(self, text, status, messages)
        self.rank = rank
        self.host = host
        self.how = how
        self.traceback = traceback
        self.errors = errors or {}

    def __reduce__(self):
        return (
            type(self),
            (str(self), self.status, self.messages, self.rank, self.host, self.how, self.traceback, self.errors),
        )


class Outcome(object):
    """The results and errors that come back while the job runs."""

    def __init__(self):
        self.results = {}  # rank: pickle, in base64
        self.failures = []  # in the order they came: {"rank", "host", "how" or "traceback", ...}
        self.before = []  # the same, of the last generation of an elastic job that had any
        self.end = None

    def add(self, head, data):
        if head["t"] == "result":
            self.results[head["rank"]] = data
        elif head["t"] == "error":
            try:
                about = json.loads(data.decode("utf-8"))
            except ValueError:
                about = {"text": data.decode("utf-8", "replace"), "type": "?", "host": "?", "traceback": ""}
            about["rank"] = head["rank"]
            self.failures.append(about)
        elif head["t"] == "exit":
            self.failures.append(head)
        elif head["t"] == "generation":
            self.results.clear()
            self.before = self.failures or self.before
            self.failures = []
        elif head["t"] == "end":
            self.end = head

    def first_failure(self):
        """Returns the failure that caused the others. HorovodInternalError, which a rank raises when another one has
        gone, is never the cause. What a rank raised is preferred to how it ended."""
        failures = self.failures or self.before
        raised = {f["rank"]: f for f in failures if "traceback" in f}
        causes = [raised.get(f["rank"], f) for f in failures]
        for f in causes:
            if f.get("type") != "HorovodInternalError":
                return f
        return causes[0] if causes else None

    def ended(self):
        """Were the ranks ended from outside, and not by what one of them has done?"""
        failure = self.first_failure()
        if failure is None:
            return bool(self.end and self.end["started"])
        return "traceback" not in failure and failure["status"] == 128 + signal.SIGTERM

    def tracebacks(self):
        return {f["rank"]: f["traceback"] for f in self.failures or self.before if "traceback" in f}


def _rank_error(failure, outcome, status, messages, reason):
    about = dict(
        status=status,
        messages=messages,
        rank=failure["rank"],
        host=failure["host"],
        errors=outcome.tracebacks(),
    )
    where = "rank {rank} on {host}".format(**failure)
    if "traceback" not in failure:
        what = "failed: " if failure["status"] else "ended without a result: "
        text = (reason + ": " if reason else "") + where + " " + what + failure["how"]
        return RankError(text, how=failure["how"], **about)
    error = RankError(
        "{} raised {}: {}\n\nThere:\n{}".format(where, failure["type"], failure["text"], failure["traceback"].rstrip()),
        traceback=failure["traceback"],
        **about
    )
    try:
        error.__cause__ = pickle.loads(base64.b64decode(failure["pickled"]))
    except Exception:  # not sent, or of a class that does not exist here
        pass
    return error


def failed(outcome, status, messages, reason=None):
    """Returns the exception for a launch that went wrong. `reason` is what the caller knows of it besides hvdrun."""
    failure = outcome.first_failure()
    if failure:
        return _rank_error(failure, outcome, status, messages, reason)
    text = reason or "hvdrun ended " + ("with status %d" % status if status >= 0 else "by signal %d" % -status)
    if messages:
        text += ("\n" if reason else ":\n") + "\n".join(messages)
    return LaunchError(text, status if status >= 0 else None, messages)


def load_results(outcome, status, messages):
    values = []
    for rank in range(outcome.end["ranks"]):
        try:
            values.append(pickle.loads(base64.b64decode(outcome.results.pop(rank))))
        except Exception as e:
            raise LaunchError(
                "the result of rank {} cannot be read here: {}: {}".format(rank, type(e).__name__, e), status, messages
            ) from e
    return values
