"""Python runs this first. Services keep their connections to SQLite: opening one costs as much as what is asked over it."""
from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy.pool import QueuePool, SingletonThreadPool

_default = pysqlite.SQLiteDialect_pysqlite.get_pool_class


def get_pool_class(cls, url):
    return SingletonThreadPool if _default(url) is SingletonThreadPool else QueuePool


pysqlite.SQLiteDialect_pysqlite.get_pool_class = classmethod(get_pool_class)
