"""All services of nova in one process, because its message bus is in memory."""
import nova.monkey_patch  # noqa: F401  must be first
import json
import os
import socket
import sys
import time

from oslo_log import log as logging
from oslo_service import service as oslo_service

import nova.conf
from nova import config, objects, service
from nova.compute import rpcapi as compute
from nova.conductor import rpcapi as conductor
from nova.scheduler import rpcapi as scheduler

CONF = nova.conf.CONF
config.parse_args(['nova'] + sys.argv[1:])
logging.setup(CONF, 'nova')
objects.register_all()
objects.Service.enable_min_version_cache()


def wait_for(port):
    """A compute service that finds no keystone or placement at its start tries again only after a minute."""
    while True:
        try:
            socket.create_connection(('127.0.0.1', port), 1).close()
            return
        except OSError:
            time.sleep(0.05)


for port in os.environ['NEEDED_PORTS'].split(','):
    wait_for(int(port))
launcher = oslo_service.ServiceLauncher(CONF, restart_method='mutate')
launcher.launch_service(service.Service.create(binary='nova-conductor', topic=conductor.RPC_TOPIC))
launcher.launch_service(service.Service.create(binary='nova-scheduler', topic=scheduler.RPC_TOPIC))
for host, driver in json.loads(os.environ['COMPUTE_DRIVERS']).items():
    CONF.set_override('compute_driver', driver)
    launcher.launch_service(service.Service.create(binary='nova-compute', topic=compute.RPC_TOPIC, host=host))
launcher.launch_service(service.WSGIService('osapi_compute', use_ssl=False))
launcher.wait()
