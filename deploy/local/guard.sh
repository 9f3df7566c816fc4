#!/bin/sh
# guard.sh SIGNAL PROGRAM [ARGUMENT]...
#
# Runs PROGRAM under the pid of this shell and leaves a guard behind that waits, without polling, on descriptor 3: a pipe
# whose other end only the parent holds. A line on it says that PROGRAM has ended. End of file says that the parent is
# gone, however it died; then PROGRAM gets SIGNAL, with its children where it leads a process group.
signal=$1
shift
(read -r _ <&3 || kill -s "$signal" -- -$$ || kill -s "$signal" $$) >/dev/null 2>&1 &
exec "$@" 3<&-
