"""A provider in Python: makes and removes VMs of the simulated cloud for Millwright.

The order of the steps is the contract; docs/providers.md tells why. For another cloud replace CODES, and what is sent to
and read from it. Each step looks before it acts, because every activity may run again after a crash at any line.
"""

import asyncio
import base64
import json
import os
import re
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from temporalio import activity
from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

SETTLE_SECONDS = 2  # how long the cloud may leave a VM that it has made out of its lists
UID_TAG = "millwright.dev/machine-uid"
ALIVE = {"creating", "running"}
TRANSIENT = {"Aborted", "DeadlineExceeded", "Unavailable", "Unknown"}
CODES = {  # error codes of the cloud (the first three also of Kubernetes) to Millwright's; any other is Unknown
    "Unauthorized": "Unauthenticated",
    "Forbidden": "PermissionDenied",
    "NotFound": "NotFound",
    "InvalidParameter": "InvalidArgument",
    "InsufficientCapacity": "ResourceExhausted",
    "QuotaExceeded": "ResourceExhausted",
    "Throttled": "Unavailable",
    "ServiceUnavailable": "Unavailable",
}


def failure(code, message, pause=0, **details):
    """The one way to fail. Message and details end up in a status and in histories: no secret in them. The cloud asks to be
    left alone for `pause` seconds: a long one is waited for in the workflow, where people see it."""
    final = code not in TRANSIENT or pause >= 10
    details |= {"retryAfterMs": pause * 1000} if pause else {}
    delay = timedelta(seconds=pause) if pause and not final else None
    return ApplicationError(message, details, type=code, non_retryable=final, next_retry_delay=delay)


def hide(secrets, text):
    """A text of the cloud without secrets: some clouds quote what they refuse. Values below 4 characters are in many words."""
    for secret in sorted({each.strip() for each in secrets}, key=len, reverse=True):  # a short one may be part of a long one
        text = text.replace(secret, "(hidden)") if len(secret) >= 4 else text
    return text


def call(method, url, token, body=None, tls=None, absent_ok=False, secrets=()):
    """JSON of a server's answer, be it the cloud's or Kubernetes'. With `absent_ok` a 404 is None and no failure. Neither
    `token` nor `secrets` are in what a failure quotes."""
    host, data = urlsplit(url).netloc, body and json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(url, data, headers, method=method), timeout=30, context=tls) as answer:
            return json.load(answer)
    except HTTPError as refusal:
        if absent_ok and refusal.code == 404:
            return None
        text = refusal.read()
        try:
            answer = json.loads(text)
            problem, key = (answer, "reason") if answer.get("kind") == "Status" else (answer["error"], "code")
            reason, words = str(problem[key]), str(problem["message"])
        except (AttributeError, KeyError, TypeError, ValueError):  # a class names the server: it may be any, so quote nothing
            shape = f"{len(text)} bytes of {refusal.headers.get_content_type()}"
            reason, words = "", f"the answer is not in the cloud's format ({shape})"
        answered = {"cloudCode": reason, "requestId": refusal.headers.get("x-request-id", "")}
        ids = {key: hide([token, *secrets], value) for key, value in answered.items()}
        message = f"{host} answered {refusal.code}: {hide([token, *secrets], words)}"
        pause = refusal.headers.get("retry-after", "")
        raise failure(CODES.get(reason, "Unknown"), message, int(pause) if pause.isdigit() else 0, **ids) from refusal
    except OSError as error:  # whether it had an effect nobody knows, and Unavailable says just that
        raise failure("Unavailable", f"{host} does not answer: {error}") from error


def read_secret(namespace, name):
    """Keys of a Secret, none where it does not exist. Reads the token anew, for that of a service account expires."""
    with open(os.environ["KUBERNETES_TOKEN_FILE"], encoding="utf-8") as file:
        token = file.read().strip()
    url = f"{os.environ['KUBERNETES_SERVER']}/api/v1/namespaces/{namespace}/secrets/{name}"
    tls = ssl.create_default_context(cafile=os.environ["KUBERNETES_CA_FILE"])
    secret = call("GET", url, token, tls=tls, absent_ok=True) or {}
    return {key: base64.b64decode(value).decode() for key, value in secret.get("data", {}).items()}


def open_cloud(request):
    """A function that calls the cloud with the credentials of a request. Keys of a later Secret win."""
    keys = {key: value for ref in request["credentials"] for key, value in read_secret(**ref).items()}
    for field, place in (("endpoint", request["providerSpec"]), ("token", keys)):
        if not place.get(field):
            raise failure("InvalidArgument", f"{field} is missing: set providerSpec.endpoint, and token in a Secret")
    endpoint, token = request["providerSpec"]["endpoint"], keys["token"].strip()

    def call_cloud(method, path, body=None, secrets=()):
        names_one = re.match(r"/v1/\w+/", path)  # which may be gone
        hidden = [*keys.values(), *secrets]
        return call(method, endpoint + path, token, body, absent_ok=names_one is not None, secrets=hidden)

    return call_cloud


def provider_id(vm):
    return f"simulated:///{vm['region']}/{vm['id']}"  # what the kubelet will call its Node, too


def named_id(request):
    """Id of the VM that the Machine names, if it is of this cloud. Others may spell the place before it otherwise."""
    scheme, _, rest = request.get("providerID", "").lower().partition("://")
    return rest.rsplit("/", 1)[-1] if scheme == "simulated" else None


def region_of(spec):
    return spec.get("region", "local")


def tags_of(request):
    """The tags by which the VMs of this installation are told from others."""
    if not request["providerSpec"].get("tags"):
        raise failure("InvalidArgument", "providerSpec.tags is missing: give at least one tag")
    return request["providerSpec"]["tags"]


def path_of(kind, name):
    return f"/v1/{kind}s/{name}"


def is_vm(resource):
    return resource["kind"] == "vm"


def find_own(cloud, request):
    """All that is the Machine's, oldest first, and the VM that it names if that is somebody else's. Or the sweep's one."""
    if not (only := request.get("only")):
        own = cloud("GET", "/v1/resources?" + urlencode({"tag": f"{UID_TAG}={request['machine']['uid']}"}))["items"]
        named = named_id(request)
        if named is None or any(each["id"].lower() == named for each in own):
            return own, None
        found = cloud("GET", "/v1/resources?" + urlencode({"vm": named}))["items"]
        stranger = next((each for each in found if is_vm(each) and not is_known(each, request)), None)
        return own if stranger else own + found, stranger
    one = cloud("GET", path_of(only["kind"], only["id"].rsplit("/", 1)[-1]))
    if one and (one["tags"].get(UID_TAG) != only.get("uid") or not tags_of(request).items() <= one["tags"].items()):
        raise failure("FailedPrecondition", f"{one['id']} was changed: it must have the tags of its class and the UID tag of the request")
    return [one] if one else [], None


def is_known(vm, request):
    """Whether the VM of a provider ID is the Machine's. Who may edit Machines may write any provider ID there."""
    return tags_of(request).items() <= vm["tags"].items()


def of_others(vm):
    cause = "it has neither the tags of the class nor the UID of the Machine: correct or remove spec.providerID"
    return failure("FailedPrecondition", f"the VM {provider_id(vm)} is neither used nor deleted: {cause}")


def find_survivor(cloud, request):
    """The VM that the Machine names, else its oldest, once others are deleted; None when there is none."""
    own, stranger = find_own(cloud, request)
    if stranger:
        raise of_others(stranger)
    vms = [each for each in own if is_vm(each) and each["state"] in ALIVE]
    vms.sort(key=lambda vm: vm["id"].lower() != named_id(request))  # keeps the order of age otherwise
    for surplus in [] if request.get("mustExist") else vms[1:]:
        cloud("DELETE", path_of("vm", surplus["id"]))
    return vms[0] if vms else None


def find_untagged(cloud, request):
    """The VM that another system has made for the Machine: with its name, the tags of its class and no UID tag."""
    query, items, page = [("tag", f"{key}={value}") for key, value in tags_of(request).items()], [], ""
    while page is not None:
        answer = cloud("GET", "/v1/resources?" + urlencode([*query, *([("page", page)] if page else [])]))
        items, page = items + answer["items"], answer.get("nextPage")
    named = [each for each in items if is_vm(each) and each["name"] == request["machine"]["name"]]
    vms = [each for each in named if each["state"] in ALIVE and UID_TAG not in each["tags"]]
    if len(vms) > 1:
        ids = ", ".join(vm["id"] for vm in vms)
        raise failure("OutOfRange", f"{ids} have the name and tags of the Machine: set spec.providerID to one of them, or delete them")
    return vms[0] if vms else None


def create_vm(cloud, request):
    machine, spec = request["machine"], request["providerSpec"]
    namespace, name, key = (request["userData"][field] for field in ("namespace", "name", "key"))
    secret = read_secret(namespace, name)
    user_data = secret.get(key)
    if not user_data:
        raise failure("InvalidArgument", f"Secret {namespace}/{name} has no user data: add the key {key}")
    tags = {**spec.get("tags", {}), UID_TAG: machine["uid"]}
    vm = {
        "token": request["token"],  # the cloud makes no second VM for it
        "name": machine["name"],
        "region": region_of(spec),
        "machineType": spec.get("machineType"),
        "tags": tags,
        "partTags": tags,  # of its disk, NIC and address
        "userData": user_data,
        "node": {"labels": spec.get("labels", {}), "taints": spec.get("taints", [])},
    }
    return cloud("POST", "/v1/vms", vm, secrets=secret.values())


def ensure_vm(request):
    cloud = open_cloud(request)
    vm = find_survivor(cloud, request)
    if vm is None and (request["outcomeUnknown"] or activity.info().attempt > 1):
        time.sleep(SETTLE_SECONDS)  # what an earlier attempt has made is listed by now, or was never made
        vm = find_survivor(cloud, request)
    if vm is None and request.get("mustExist"):
        raise failure("NotFound", f"the cloud shows no VM of Machine {request['machine']['name']}")
    vm = vm or create_vm(cloud, request)
    return {
        "state": vm["state"] if vm["state"] in ALIVE else "failed",
        "providerID": provider_id(vm),
        "nodeName": vm["name"],
        "addresses": vm["addresses"],
    }


def delete_vm(request):
    cloud, start, node_names, known = open_cloud(request), time.monotonic(), set(), request.get("nodeNames")
    settled = start + (SETTLE_SECONDS if request["outcomeUnknown"] else 0)
    while (now := time.monotonic()) < start + 20:
        own, stranger = find_own(cloud, request)
        vms = [each for each in own if is_vm(each)]
        node_names.update(vm["name"] for vm in vms)  # a VM that no answer ever told of may have a Node
        if not own and request.get("mayBeUntagged") and (vm := find_untagged(cloud, request)):
            return {"state": "deleting", "untaggedVm": {"providerID": provider_id(vm), "nodeName": vm["name"]}}
        if not own and now >= settled:
            if stranger:
                raise of_others(stranger)
            return {"state": "gone", "nodeNames": sorted(node_names)}
        if known is not None and not node_names <= set(known):  # Millwright has to know them before VMs go
            return {"state": "deleting", "nodeNames": sorted(node_names)}
        for each in vms or own:  # most parts go with their VM, and none can go before it
            if each.get("state") != "deleting":
                cloud("DELETE", path_of(each["kind"], each["id"]))
        time.sleep(0.2)
    return {"state": "deleting"}  # Millwright asks again


def list_vms(request):
    query = [("tag", f"{key}={value}") for key, value in tags_of(request).items()]
    if request.get("page"):
        query.append(("page", request["page"]))
    answer = open_cloud(request)("GET", "/v1/resources?" + urlencode(query))
    region = region_of(request["providerSpec"])
    return {"items": [to_item(each, region) for each in answer["items"]], "nextPage": answer.get("nextPage")}


def to_item(resource, region):
    if is_vm(resource):
        of_kind = {"id": provider_id(resource), "alive": resource["state"] in ALIVE}
    else:  # without a UID tag, only the VM that has it says whose it is
        vm = resource.get("vm")
        of_kind = {"attachedTo": provider_id({"region": region, "id": vm})} if vm else {}
    fields = {field: resource[field] for field in ("kind", "id", "name", "createdAt", "tags")}
    return {**fields, "uid": resource["tags"].get(UID_TAG), **of_kind}


def validate_class(request):
    spec, secrets = request["providerSpec"], request["credentials"]
    problems = [f"providerSpec.{field} is missing: set it" for field in ("endpoint", "tags") if not spec.get(field)]
    scope = json.dumps([spec.get("endpoint"), spec.get("tags"), secrets], sort_keys=True)
    return {"problems": problems, "listScope": scope}


def served_as(name, function):
    """An activity of a function that blocks. It beats meanwhile, which is also how it hears that it is cancelled; it
    goes on even then, so that no create call is still under way when Millwright deletes the VM."""

    @activity.defn(name=name)
    async def run(request: dict) -> dict:
        work = asyncio.ensure_future(asyncio.to_thread(function, request))
        while not work.done():
            try:
                await asyncio.wait([work], timeout=4)
                if not work.done():
                    activity.heartbeat()
            except asyncio.CancelledError:
                pass
        return work.result()

    return run


async def main():
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(100))  # a worker takes 100 activities at once
    client = await Client.connect(**ClientConfigProfile.load().to_client_connect_config())
    queue = f"{os.environ['MILLWRIGHT_INSTALLATION']}.provider-python"
    served = {"ensureVm": ensure_vm, "deleteVm": delete_vm, "listVms": list_vms, "validateClass": validate_class}
    activities = [served_as(name, function) for name, function in served.items()]
    print(f"serving {queue}", flush=True)
    often = timedelta(seconds=5)  # by default the SDK holds back heartbeats for 8 s, and cancellations with them
    await Worker(client, task_queue=queue, activities=activities, max_heartbeat_throttle_interval=often).run()


if __name__ == "__main__":
    asyncio.run(main())
