"""Runs the conformance suite for provider.py, with a counterpart: a program that sets faults in the simulated cloud and
says what exists in it (docs/reference/conformance.md). For another cloud, replace the class Counterpart."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

FOLDER = Path(__file__).resolve().parent
MILLWRIGHT = Path(os.environ.get("MILLWRIGHT", FOLDER / "../../..")).resolve()  # a clone, with the suite and the cloud
UID_TAG = "millwright.dev/machine-uid"
TAGS = {"class": {"cluster": "conformance"}, "another": {"cluster": "another"}, "nobody": {}}
NOT_RUN = {"change tags"}  # the provider has no updateVm


class Counterpart:
    """Answers the suite, by the admin API of a simulated cloud."""

    def __init__(self, cloud_url, token):
        self.cloud_url, self.token = cloud_url, token

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}"}  # the admin API needs none
        with urlopen(Request(self.cloud_url + path, json.dumps(body).encode(), headers, method=method), timeout=30) as answer:
            return json.load(answer)

    def facts(self, _):
        place = {"endpoint": self.cloud_url, "region": "here", "machineType": "small"}
        return {
            "providerSpec": {**place, "tags": TAGS["class"]},
            "credentials": {"token": self.token},
            "manyVms": 150,  # a page of the cloud has 100
            "listedLateMs": 1500,  # less than SETTLE_SECONDS of the provider
        }

    def set_fault(self, request):
        fault = request.get("fault", {"kind": "none"})
        ms, no_tokens = fault.get("ms"), {"kind": "ignoreTokens"}
        late, of_creation = {"kind": "invisible", "ms": ms}, {"effect": "done", "operation": "create"}
        faults = {
            "none": [],
            "lostAnswer": [{"kind": "lostAnswer", "times": 1, **of_creation}, late, no_tokens],
            "slowAnswer": [{"kind": "hang", "ms": ms, **of_creation}, no_tokens],
            "listedLate": [late, no_tokens],
            "noCapacity": [{"kind": "capacity"}],
            "halfWay": [{"kind": "leak", "operation": "create"}],
            "missingPermission": [{"kind": "forbidden"}],
            "throttled": [{"kind": "throttle", "retryAfterSeconds": 1, "times": fault.get("times")}],
            "askedToWait": [{"kind": "throttle", "retryAfterSeconds": fault.get("retryAfterSeconds")}],
        }
        self.ask("PUT", "/faults", {"faults": faults[fault["kind"]]})

    def things(self, _):
        found = self.ask("GET", "/resources")
        uid = lambda tags: {"uid": tags[UID_TAG]} if UID_TAG in tags else {}
        vm = lambda part: {"attachedTo": part["vm"]} if part.get("vm") else {}
        return [{"id": each["id"], "kind": each["kind"], **uid(each["tags"]), **vm(each)} for each in found]

    def calls(self, _):
        return {"calls": self.ask("GET", "/stats")["calls"]}

    def make_vms(self, request):
        return {"providerIDs": [self.make_vm(**request) for _ in range(request["count"])]}

    def make_vm(self, owner, count, uid=None, name=None):
        token = str(uuid.uuid4())
        tags = {**TAGS[owner], **({UID_TAG: uid} if uid else {})}
        vm = {"token": token, "name": name or f"made-{token}", "region": "here", "machineType": "small"}
        made = self.ask("POST", "/v1/vms", {**vm, "tags": tags, "partTags": tags, "userData": "none", "node": None})
        return f"simulated:///{made['region']}/{made['id']}"

    def reset(self, _):
        self.set_fault({})
        self.ask("POST", "/reset")

    def serve(self):
        """Serves on a free port. Answers the server and its URL."""
        routes = {
            "GET /": self.facts,
            "PUT /fault": self.set_fault,
            "GET /things": self.things,
            "GET /calls": self.calls,
            "POST /vms": self.make_vms,
            "POST /reset": self.reset,
        }

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                try:
                    status, value = 200, routes[f"{self.command} {self.path}"](json.loads(body or "{}"))
                except Exception as error:  # the suite shows it
                    status, value = 500, repr(error)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

            do_GET = do_PUT = do_POST = answer

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server, f"http://127.0.0.1:{server.server_port}"


class ConformanceTest(unittest.TestCase):
    def start_cloud(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        token = f"canary-{uuid.uuid4()}"
        flags = ["--data", folder.name, "--token", token, "--boot-ms", "200", "--delete-ms", "500"]
        program = ["node", "deploy/local/bootstrap.js", "deploy/local/simulated-cloud/main.ts"]
        cloud = subprocess.Popen([*program, *flags], cwd=MILLWRIGHT, stdout=subprocess.PIPE, text=True)
        self.addCleanup(cloud.stdout.close)
        self.addCleanup(cloud.wait)
        self.addCleanup(cloud.terminate)
        return json.loads(cloud.stdout.readline())["url"], token

    def test_every_case(self):
        server, url = Counterpart(*self.start_cloud()).serve()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        worker = shlex.join([sys.executable, str(FOLDER / "provider.py")])
        flags = ["--json", "--provider", "python", "--counterpart", url, "--worker", worker]
        more = shlex.split(os.environ.get("CONFORMANCE_FLAGS", ""))
        suite = ["npm", "run", "--silent", "conformance", "--", *flags, *more]
        done = subprocess.run(suite, cwd=MILLWRIGHT, stdout=subprocess.PIPE, text=True)
        self.assertIn(done.returncode, (0, 1, 3), "the suite has not run")

        [run] = json.loads(done.stdout)
        self.assertEqual(NOT_RUN, {each["title"] for each in run["results"] if each["state"] == "not run"})
        for each in run["results"]:
            with self.subTest(each["title"]):
                self.assertNotEqual("failed", each["state"], "\n".join([each.get("why", ""), *each.get("calls", [])]))


if __name__ == "__main__":
    unittest.main()
