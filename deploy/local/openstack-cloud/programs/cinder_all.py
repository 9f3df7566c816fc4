"""All services of cinder in one process, because its message bus is in memory."""
import eventlet

eventlet.monkey_patch()
import sys

from oslo_config import cfg
from oslo_log import log as logging
from oslo_service import service as oslo_service

from cinder import objects

objects.register_all()
from cinder import coordination, rpc, service, version
from cinder.cmd import volume
from cinder.common import config, constants

CONF = cfg.CONF
CONF(sys.argv[1:], project='cinder', version=version.version_string())
config.set_middleware_defaults()
logging.setup(CONF, 'cinder')
coordination.COORDINATOR.start()
rpc.init(CONF)
CONF.register_opt(volume.host_opt, group='fake')
launcher = oslo_service.ServiceLauncher(CONF, restart_method='mutate')
launcher.launch_service(service.Service.create(binary='cinder-scheduler'))
launcher.launch_service(
    service.Service.create(
        host=CONF.host + '@fake', service_name='fake', binary=constants.VOLUME_BINARY, coordination=True
    )
)
launcher.launch_service(service.WSGIService('osapi_volume'))
launcher.wait()
