#!/bin/sh
# For a job of any CI, each night: is every node as wanted, and has anything drifted?
#
#     HOSTS=@gpu sh ci.sh
#
# Changes nothing. Ends with the code of verify (0 well, 2 fails, 3 unknown, 4 out of reach), or with
# 7 where all is well and a change is pending. verify.xml is JUnit's.
set -u
cd "$(dirname "$0")" || exit
hosts=${HOSTS:-@gpu}
invoke verify --hosts "$hosts" --inventory hosts.ini --site . --junit verify.xml || exit
invoke provision --hosts "$hosts" --inventory hosts.ini --site . --check
