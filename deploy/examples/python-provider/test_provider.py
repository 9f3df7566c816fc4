"""What the conformance suite does not test in provider.py."""

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest.mock import patch

import provider
from temporalio.exceptions import ApplicationError

SECRETS = {
    "credentials": {"token": "canary-token\n", "user": "canary"},
    "user-data": {"userData": "#!/bin/sh\njoin canary-data\n", "other": "other-canary"},
}


class Refusing(BaseHTTPRequestHandler):
    """A cloud that quotes all that it could know."""

    def do_POST(self):
        words = " ".join(f"<{value.strip()}>" for secret in SECRETS.values() for value in secret.values())
        self.send_response(400)
        self.send_header("x-request-id", "canary-token")
        self.end_headers()
        self.wfile.write(json.dumps({"error": {"code": "canary-token", "message": words}}).encode())

    def log_message(self, *_):
        pass


class ProviderTest(unittest.TestCase):
    def test_refusal_hides_every_value_of_the_secrets(self):
        server = HTTPServer(("127.0.0.1", 0), Refusing)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        request = {
            "credentials": [{"namespace": "default", "name": "credentials"}],
            "providerSpec": {"endpoint": f"http://127.0.0.1:{server.server_port}"},
            "machine": {"uid": "uid", "name": "machine"},
            "userData": {"namespace": "default", "name": "user-data", "key": "userData"},
            "token": "uid-0",
        }

        with patch.object(provider, "read_secret", lambda namespace, name: SECRETS[name]):
            with self.assertRaises(ApplicationError) as refused:
                provider.create_vm(provider.open_cloud(request), request)

        self.assertEqual(4, refused.exception.message.count("<(hidden)>"), refused.exception.message)
        self.assertEqual(({"cloudCode": "(hidden)", "requestId": "(hidden)"},), refused.exception.details)

    def test_named_vm_survives_whatever_the_case_of_its_id(self):
        vms = [{"kind": "vm", "id": each, "state": "running", "tags": {}} for each in ("Vm-Older", "Vm-Named")]
        request = {"machine": {"uid": "uid"}, "providerID": "simulated:///here/vm-NAMED", "mustExist": True}

        vm = provider.find_survivor(lambda *_: {"items": vms}, request)

        self.assertEqual("Vm-Named", vm["id"])


if __name__ == "__main__":
    unittest.main()
