"""Serves moto: without a line in the log for each request, and with addresses that come back late."""

import logging
from collections import deque
from weakref import WeakKeyDictionary

import moto.server
from moto.ec2.models.subnets import Subnet

take = Subnet.get_available_subnet_ip
freed = WeakKeyDictionary()


def take_least_recent(subnet, instance):
    """A freed address is given only when no other is left, so that no VM gets the name of one that has just ended."""
    try:
        return take(subnet, instance)
    except StopIteration:
        if not freed.get(subnet):
            raise
        while freed[subnet] and freed[subnet][0] in subnet._subnet_ips:
            freed[subnet].popleft()  # somebody has asked for this one
        if not freed[subnet]:
            raise
        subnet._unused_ips.add(freed[subnet].popleft())
        return take(subnet, instance)


def free(subnet, ip):
    if ip in subnet._subnet_ips:
        del subnet._subnet_ips[ip]
        freed.setdefault(subnet, deque()).append(ip)


Subnet.get_available_subnet_ip = take_least_recent
Subnet.del_subnet_ip = free

logging.getLogger("werkzeug").setLevel("ERROR")
moto.server.main()
