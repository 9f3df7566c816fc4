"""Serves keystone or placement with threads: `wsgi.py keystone|placement PORT`."""
import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

name, port = sys.argv[1], int(sys.argv[2])
sys.argv[1:] = []  # keystone reads the command line, too
if name == 'keystone':
    from keystone.server.wsgi import initialize_public_application as application
else:
    from placement.wsgi import init_application as application


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = Server(('127.0.0.1', port), Handler)
server.set_app(application())
server.serve_forever()
