"""What a Turnus plugin in Python stands on: it speaks the wire, so that jobs.py need not.

It needs python3-grpcio and python3-protobuf (Debian), or grpcio and protobuf (PyPI). Made by
turnus plugins init; it is yours to change.
"""
import difflib
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from concurrent import futures
from queue import SimpleQueue

_stdout = None


def claim_stdout():
    """Keep the real standard output for the handshake; whatever is printed goes to standard error."""
    global _stdout
    if _stdout is None:
        _stdout = os.dup(1)
        os.dup2(2, 1)


PROTOCOL = 1
COOKIE = ("TURNUS_PLUGIN", "7f2d6f8c1e5b4a0f9d33c1a86e2b5490")
CHUNK = 64 << 10
LIMITS = [("grpc.max_receive_message_length", 8 << 20), ("grpc.max_send_message_length", 8 << 20)]


class Failed(Exception):
    """Ends the step as failed. effects: none, partial or unknown."""

    def __init__(self, reason, effects="unknown", retryable=False, rolled_back=False, lost=False, unreachable=False):
        super().__init__(reason)
        self.effects, self.retryable = effects, retryable
        self.rolled_back, self.lost, self.unreachable = rolled_back, lost, unreachable


class Suspend(Exception):
    """Parks the job: it is called again after so many seconds, with run.state set to state."""

    def __init__(self, state, after, reason="", window_closed=False):
        super().__init__(reason)
        self.state, self.after, self.window_closed = state, after, window_closed


class Cancelled(Exception):
    """The job was cancelled, or its time is over."""


# --- params -----------------------------------------------------------------

_KINDS = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}


def _whole_words(text, limit):
    """The beginning of a text, cut at white space: a worker knows a secret by the whole of it, and would show a part."""
    if len(text) <= limit:
        return text
    return text[: max(0, *(text.rfind(blank, 0, limit + 1) for blank in " \t\r\n"))]


def _check(schema, value, at, found):
    """Find what is wrong, as (JSON pointer, text), and fill defaults in."""
    kind = schema.get("type")
    if kind and not _KINDS[kind](value):
        found.append((at, f"expected {kind}"))
        return
    if "enum" in schema and value not in schema["enum"]:
        found.append((at, f"expected one of {schema['enum']}"))
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append((at, f"does not match {schema['pattern']}"))
    for word, low in (("minimum", True), ("maximum", False)):
        if word in schema and isinstance(value, (int, float)):
            if value < schema[word] if low else value > schema[word]:
                found.append((at, f"{word} is {schema[word]}"))
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for i, item in enumerate(value):
            _check(schema["items"], item, f"{at}/{i}", found)
    if isinstance(value, dict) and "properties" in schema:
        _check_object(schema, value, at, found)


def _check_object(schema, value, at, found):
    known = schema["properties"]
    for name in sorted(value):
        where = at + "/" + name.replace("~", "~0").replace("/", "~1")
        if name in known:
            _check(known[name], value[name], where, found)
        elif schema.get("additionalProperties") is False:
            near = difflib.get_close_matches(name, known, 1)
            found.append((where, f"unknown parameter {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")))
    for name in schema.get("required", []):
        if name not in value:
            found.append((at, f"parameter {name!r} is required"))
    for name, one in known.items():
        if name not in value and "default" in one:
            value[name] = one["default"]


# --- one call ---------------------------------------------------------------


class _Reports:
    """The results that a step reports."""

    def __init__(self):
        self.was_changed, self.outputs = False, {}
        self.skipped, self.reason = False, ""

    def changed(self):
        """The host was changed; in check mode: it would be."""
        self.was_changed = True

    def output(self, name, value):
        self.outputs[name] = value

    def skip(self, reason):
        self.skipped, self.reason = True, reason


class Run(_Reports):
    """One call of a job type."""

    def __init__(self, request, job, worker, emit):
        super().__init__()
        self.params, self.check = {}, request.check
        self.host, self.labels = request.host, dict(request.host_labels)
        self.attempt, self.key, self.fence = request.attempt, request.idempotency_key, request.fence
        self.state = None  # what checkpoint or Suspend saved last
        self._request, self._job, self._worker, self._emit = request, job, worker, emit
        self._meta = (("turnus-lease", request.lease),)
        self._lock, self._calls, self._ended, self.timed_out = threading.Lock(), set(), False, False

    # reports

    def log(self, message, level="INFO"):
        pb = self._worker.pb
        self._emit(pb.RunEvent(log=pb.Log(level=pb.Log.Level.Value(level), message=message)))

    def print(self, text):
        pb = self._worker.pb
        for i in range(0, len(text), CHUNK // 4):
            self._emit(pb.RunEvent(output=pb.Chunk(stdout=text[i : i + CHUNK // 4].encode())))

    def progress(self, done, phase):
        pb = self._worker.pb
        self._emit(pb.RunEvent(progress=pb.Progress(done=done, phase=phase)))

    def diff(self, title, before, after):
        pb = self._worker.pb
        lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), title, title)
        if self._request.diff:
            self._emit(pb.RunEvent(diff=pb.Diff(title=title, text=_whole_words("".join(lines), 128 << 10))))

    # what it does

    def command(self, line, read_only=False, stdin=b"", env=None, timeout=0):
        """Run a command on the host: (exit code, stdout, stderr), as texts."""
        pb = self._worker.pb
        start = pb.ExecStart(command=line, read_only=read_only, env=env or {}, timeout_ms=int(timeout * 1000))
        got = self._ask(self._worker.command, pb.CommandRequest(start=start, stdin=stdin))
        return got.exit.code, got.stdout.decode(errors="replace"), got.stderr.decode(errors="replace")

    def put(self, path, content, mode=0, owner=""):
        """Write a file of the host. content is bytes, or a file that is read in chunks. mode 0 keeps
        that of the file there, and is 0644 for a new one."""
        pb = self._worker.pb

        def messages():
            yield pb.PutRequest(start=pb.PutStart(path=path, mode=mode, owner=owner, size=-1))
            if isinstance(content, bytes):
                for i in range(0, len(content), CHUNK):
                    yield pb.PutRequest(data=content[i : i + CHUNK])
                return
            while chunk := content.read(CHUNK):
                yield pb.PutRequest(data=chunk)

        return self._ask(self._worker.put, messages())

    def get(self, path, max_size=1 << 20):
        """Read a file of the host: bytes, or None when it is missing."""
        pb, grpc = self._worker.pb, self._worker.grpc
        call = self._began(lambda: self._worker.get(pb.GetRequest(path=path, max_size=max_size), metadata=self._meta))
        content = bytearray()
        try:
            for message in call:
                content += message.data
                if len(content) > max_size:
                    call.cancel()
                    raise Failed(f"{path} is over {max_size} bytes", effects="none")
            return bytes(content)
        except grpc.RpcError as err:
            if err.code() == grpc.StatusCode.NOT_FOUND:
                return None
            raise self._error(err) from None
        finally:
            self._over(call)

    def secret(self, name):
        """Resolve a secret. Keep it out of state, outputs and logs."""
        return self._ask(self._worker.secret, self._worker.pb.SecretRequest(name=name)).value.decode()

    def checkpoint(self, name, state):
        """Save the state; returns once it is durable. After a crash, run.state has it."""
        pb = self._worker.pb
        kept = pb.State(version=self._job.state_version, json=json.dumps(state).encode())
        got = self._ask(self._worker.checkpoint, pb.CheckpointRequest(name=name, state=kept))
        self.state = state
        if got.stop:
            raise Suspend(state, 0, got.stop, window_closed=True)

    # how it ends

    def end(self, timed_out=False):
        """Cancel what is under way, and let nothing new begin."""
        with self._lock:
            self._ended, self.timed_out = True, self.timed_out or timed_out
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    def _began(self, start):
        with self._lock:
            if self._ended:
                raise Cancelled()
            call = start()
            self._calls.add(call)
            return call

    def _over(self, call):
        with self._lock:
            self._calls.discard(call)

    def _ask(self, method, request):
        call = self._began(lambda: method.future(request, metadata=self._meta))
        try:
            return call.result()
        except self._worker.grpc.FutureCancelledError:
            raise Cancelled() from None
        except self._worker.grpc.RpcError as err:
            raise self._error(err) from None
        finally:
            self._over(call)

    def _error(self, err):
        codes = self._worker.grpc.StatusCode
        if self._ended or err.code() == codes.CANCELLED:
            return Cancelled()
        return Failed(err.details(), unreachable=err.code() == codes.UNAVAILABLE, retryable=err.code() == codes.UNAVAILABLE)


class FakeRun(_Reports):
    """A run without a worker, for tests. commands maps command lines to (code, stdout, stderr)."""

    def __init__(self, params, commands=None, files=None, check=False, state=None, secrets=None):
        super().__init__()
        self.params, self.check, self.state = dict(params), check, state
        self.commands, self.files, self.secrets = commands or {}, dict(files or {}), secrets or {}
        self.host, self.labels, self.attempt, self.key, self.fence = "r1", {}, 1, "key", 1
        self.calls, self.diffs, self.logs, self.saved = [], [], [], []

    def log(self, message, level="INFO"):
        self.logs.append((level, message))

    def print(self, text):
        self.logs.append(("PRINT", text))

    def progress(self, done, phase):
        self.logs.append(("PROGRESS", phase))

    def diff(self, title, before, after):
        self.diffs.append((title, before, after))

    def command(self, line, read_only=False, stdin=b"", env=None, timeout=0):
        if self.check and not read_only:
            raise Failed(f"check mode: {line} is not marked read-only", effects="none")
        self.calls.append(line)
        return self.commands.get(line, (127, "", f"no answer for {line}"))

    def put(self, path, content, mode=0, owner=""):
        if self.check:
            raise Failed("check mode: a file is written", effects="none")
        self.files[path] = content if isinstance(content, bytes) else content.read()

    def get(self, path, max_size=1 << 20):
        return self.files.get(path)

    def secret(self, name):
        return self.secrets[name]

    def checkpoint(self, name, state):
        self.saved.append((name, state))
        self.state = state


# --- the plugin -------------------------------------------------------------


class _Job:
    def __init__(self, name, fn, **about):
        self.name, self.fn = name, fn
        self.state_version = about.get("state_version", 0)
        self.about = about


class _Worker:
    """The worker's end, for calls back."""

    def __init__(self, grpc, pb):
        self.grpc, self.pb = grpc, pb
        channel = grpc.insecure_channel("unix:" + os.environ["TURNUS_HOST_SOCKET"], options=LIMITS)
        hosts, job = "/turnus.plugin.v1.Hosts/", "/turnus.plugin.v1.Job/"
        raw = pb.CommandRequest.SerializeToString
        self.command = channel.unary_unary(hosts + "Command", raw, pb.CommandResponse.FromString)
        self.put = channel.stream_unary(hosts + "Put", pb.PutRequest.SerializeToString, pb.PutResponse.FromString)
        self.get = channel.unary_stream(hosts + "Get", pb.GetRequest.SerializeToString, pb.GetResponse.FromString)
        self.checkpoint = channel.unary_unary(job + "Checkpoint", pb.CheckpointRequest.SerializeToString, pb.CheckpointResponse.FromString)
        self.secret = channel.unary_unary(job + "Secret", pb.SecretRequest.SerializeToString, pb.SecretResponse.FromString)


class Plugin:
    """A plugin and its job types. concurrency: how many jobs share the process. network: it opens connections itself."""

    def __init__(self, name, version, concurrency=8, network=False):
        self.name, self.version, self.concurrency, self.network = name, version, concurrency, network
        self.jobs, self._running, self._lock, self._draining = {}, {}, threading.Lock(), False

    def job(self, name, **about):
        """Declare a job type: summary, description, params, outputs (JSON Schemas), check, idempotent,
        disruptive, on_lost, state_version, migrate(version, state), examples [(title, params)]."""

        def declare(fn):
            self.jobs[name] = _Job(name, fn, **about)
            for title, params in about.get("examples", []):
                wrong = self.problems(name, dict(params))
                if wrong:
                    raise ValueError(f"example {title!r} of {name}: {wrong}")
            return fn

        return declare

    def problems(self, name, params):
        found = []
        _check(self.jobs[name].about.get("params", {"type": "object"}), params, "", found)
        return found

    def call(self, name, run):
        wrong = self.problems(name, run.params)
        if wrong:
            raise Failed("invalid parameters: " + "; ".join(f"with{p.replace('/', '.')}: {t}" for p, t in wrong), effects="none")
        return self.jobs[name].fn(run)

    # the wire

    def _manifest(self, pb):
        types = []
        for job in self.jobs.values():
            a = job.about
            examples = [pb.Example(title=t, params=json.dumps(p).encode()) for t, p in a.get("examples", [])]
            types.append(
                pb.JobType(
                    name=job.name, summary=a.get("summary", ""), description=a.get("description", ""),
                    params_schema=json.dumps(a.get("params", {"type": "object"})).encode(),
                    outputs_schema=json.dumps(a["outputs"]).encode() if "outputs" in a else b"",
                    check=a.get("check", False), idempotent=a.get("idempotent", False), disruptive=a.get("disruptive", False),
                    on_lost=a.get("on_lost", "retry" if a.get("idempotent") else "hold"),
                    state_version=job.state_version, examples=examples,
                )
            )
        return pb.Manifest(name=self.name, version=self.version, protocol=PROTOCOL, concurrency=self.concurrency, network=self.network, types=types)

    def _find(self, name, context):
        if name not in self.jobs:
            context.abort(self._worker.grpc.StatusCode.NOT_FOUND, f"plugin {self.name} has no job type {name!r}")
        return self.jobs[name]

    def _validate(self, request, context):
        pb = self._worker.pb
        self._find(request.type, context)
        try:
            wrong = self.problems(request.type, json.loads(request.params or b"{}"))
        except ValueError as err:
            wrong = [("", f"parameters are not JSON: {err}")]
        return pb.ValidateResponse(diagnostics=[pb.Diagnostic(pointer=p, summary=t) for p, t in wrong])

    def _migrated(self, job, state):
        if state.version > job.state_version or (state.version != job.state_version and "migrate" not in job.about):
            raise ValueError(f"state version {state.version} of {job.name}: this plugin knows {job.state_version}")
        value = json.loads(state.json)
        return value if state.version == job.state_version else job.about["migrate"](state.version, value)

    def _migrate(self, request, context):
        pb = self._worker.pb
        job = self._find(request.type, context)
        try:
            value = self._migrated(job, request.state)
        except ValueError as err:
            context.abort(self._worker.grpc.StatusCode.INVALID_ARGUMENT, str(err))
        return pb.MigrateStateResponse(state=pb.State(version=job.state_version, json=json.dumps(value).encode()))

    def _signal(self, request, context):
        pb = self._worker.pb
        with self._lock:
            if request.kind == pb.SignalRequest.DRAIN:
                self._draining = True
            run = self._running.get(request.lease)
        if run and request.kind == pb.SignalRequest.CANCEL:
            run.end()
        return pb.SignalResponse()

    def _run(self, request, context):
        codes = self._worker.grpc.StatusCode
        job = self._find(request.type, context)
        events = SimpleQueue()
        run = Run(request, job, self._worker, events.put)
        with self._lock:
            if self._draining:
                refused = "the plugin is draining and takes no new job"
            else:
                refused = ""
                self._running[request.lease] = run
        if refused:
            context.abort(codes.UNAVAILABLE, refused)
        context.add_callback(run.end)  # the worker has gone, or the call is over
        timer = None
        if request.deadline_unix_ms:
            timer = threading.Timer(max(request.deadline_unix_ms / 1000 - time.time(), 0), run.end, [True])
            timer.daemon = True
            timer.start()
        threading.Thread(target=self._work, args=(job, run, request, events), daemon=True).start()
        try:
            while True:
                event = events.get()
                yield event
                if event.HasField("outcome"):
                    return
        finally:
            if timer:
                timer.cancel()
            with self._lock:
                self._running.pop(request.lease, None)

    def _work(self, job, run, request, events):
        pb = self._worker.pb
        try:
            outcome = self._outcome(job, run, request)
        except Exception as err:  # a fault of the job type ends one job, not its neighbours
            traceback.print_exc()
            outcome = self._failed(run, Failed(f"the job type raised {type(err).__name__}: {err}"))
        events.put(pb.RunEvent(outcome=outcome))

    def _outcome(self, job, run, request):
        pb = self._worker.pb
        try:
            if request.check and not job.about.get("check"):
                raise Failed(f"{job.name} does not support check mode; nothing was done", effects="none")
            try:
                run.params = json.loads(request.params or b"{}")
                if request.state.json:
                    run.state = self._migrated(job, request.state)
            except ValueError as err:
                raise Failed(str(err), effects="none") from None
            for pointer, text in self.problems(job.name, run.params):  # the worker says more of params that are refused
                run._emit(pb.RunEvent(diagnostic=pb.Diagnostic(pointer=pointer, summary=text)))
            self.call(job.name, run)
        except Failed as err:
            return self._failed(run, err)
        except Cancelled:
            if run.timed_out:
                return self._failed(run, Failed("timed out", retryable=True), timed_out=True)
            return pb.Outcome(cancelled=pb.Cancelled(reason="cancelled"))
        except Suspend as err:
            state = pb.State(version=job.state_version, json=json.dumps(err.state).encode())
            return pb.Outcome(suspended=pb.Suspended(state=state, resume_after_ms=int(err.after * 1000), reason=str(err), window_closed=err.window_closed))
        outputs = json.dumps(run.outputs).encode() if run.outputs else b""
        return pb.Outcome(done=pb.Done(changed=run.was_changed, skipped=run.skipped, reason=run.reason, outputs=outputs))

    def _failed(self, run, err, timed_out=False):
        pb = self._worker.pb
        return pb.Outcome(
            failed=pb.Failed(
                reason=_whole_words(str(err), 4096), retryable=err.retryable, effects=pb.Failed.Effects.Value(err.effects.upper()), timed_out=timed_out,
                unreachable=err.unreachable, rolled_back=err.rolled_back, lost=err.lost,
                outputs=json.dumps(run.outputs).encode() if run.outputs else b"",
            )
        )

    # the process

    def serve(self):
        """Be the plugin's process, until the worker ends it."""
        if os.environ.get(COOKIE[0]) != COOKIE[1]:
            print(f"This is a Turnus plugin ({self.name}): a worker starts it. To test it: turnus plugins test {sys.argv[0]}", file=sys.stderr)
            return 1
        claim_stdout()
        if str(PROTOCOL) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", str(PROTOCOL)).split(","):
            print(f"the worker does not speak protocol {PROTOCOL}", file=sys.stderr)
            return 1
        try:
            import grpc
            import turnus_pb2 as pb
        except ImportError as e:
            print(f"{sys.executable}, the first python3 on the PATH, cannot run it: {e}; install python3-grpcio and python3-protobuf for it", file=sys.stderr)
            return 1

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the operator's Ctrl-C is the worker's
        over = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        self._worker = _Worker(grpc, pb)
        server = grpc.server(futures.ThreadPoolExecutor(self.concurrency + 16), options=LIMITS)
        self._register(server, grpc, pb, over)
        path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "p")
        server.add_insecure_port("unix:" + path)
        server.start()
        os.write(_stdout, f"1|{PROTOCOL}|unix|{path}|grpc\n".encode())
        parent = os.getppid()
        while not over.wait(1):
            if os.getppid() != parent:  # the worker is gone without a word
                break
        server.stop(1)
        sys.stderr.flush()
        os._exit(0)  # threads of jobs do not hold it

    def _register(self, server, grpc, pb, over):
        def handlers(service, **methods):
            return grpc.method_handlers_generic_handler(service, methods)

        def unary(fn, request, response):
            return grpc.unary_unary_rpc_method_handler(fn, request.FromString, response.SerializeToString)

        def shutdown(request, context):
            over.set()
            return b""

        server.add_generic_rpc_handlers((
            handlers(
                "turnus.plugin.v1.Plugin",
                Describe=unary(lambda r, c: self._manifest(pb), pb.DescribeRequest, pb.Manifest),
                Validate=unary(self._validate, pb.ValidateRequest, pb.ValidateResponse),
                Signal=unary(self._signal, pb.SignalRequest, pb.SignalResponse),
                MigrateState=unary(self._migrate, pb.MigrateStateRequest, pb.MigrateStateResponse),
                Cleanup=unary(lambda r, c: pb.CleanupResponse(), pb.CleanupRequest, pb.CleanupResponse),
                Run=grpc.unary_stream_rpc_method_handler(self._run, pb.RunRequest.FromString, pb.RunEvent.SerializeToString),
            ),
            # grpc.health.v1: status = SERVING; go-plugin's controller: Shutdown.
            handlers("grpc.health.v1.Health", Check=grpc.unary_unary_rpc_method_handler(lambda r, c: b"\x08\x01")),
            handlers("plugin.GRPCController", Shutdown=grpc.unary_unary_rpc_method_handler(shutdown)),
        ))
