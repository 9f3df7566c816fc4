"""`neutron_tables.py URL`: makes the tables of neutron, whose migrations refuse SQLite."""
import sys

import sqlalchemy
from neutron.db.migration.models import head

head.get_metadata().create_all(sqlalchemy.create_engine(sys.argv[1]))
