"""What a read-only link lets through: a list of commands that cannot change data, and nothing by default.

It knows commands, not queues; who may do what on the server is the business of its ACL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chasqui.errors import ChangeRefused
from chasqui.server import scripts

if TYPE_CHECKING:
    from chasqui.server.flow import Arg, Call

_READS = """
    PING ECHO TIME INFO DBSIZE LASTSAVE ROLE
    KEYS SCAN RANDOMKEY TYPE EXISTS TTL PTTL EXPIRETIME PEXPIRETIME DUMP SORT_RO
    GET MGET STRLEN GETRANGE SUBSTR GETBIT BITCOUNT BITPOS BITFIELD_RO LCS
    HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN HSCAN HRANDFIELD HTTL HPTTL
    LRANGE LLEN LINDEX LPOS
    SMEMBERS SISMEMBER SMISMEMBER SCARD SSCAN SRANDMEMBER SINTER SUNION SDIFF SINTERCARD
    ZCARD ZCOUNT ZLEXCOUNT ZSCORE ZMSCORE ZRANK ZREVRANK ZSCAN ZRANDMEMBER ZDIFF ZINTER ZUNION ZINTERCARD
    ZRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREVRANGE ZREVRANGEBYSCORE ZREVRANGEBYLEX
    XLEN XRANGE XREVRANGE XREAD XPENDING
    EVAL_RO EVALSHA_RO
"""
READ_COMMANDS = frozenset(_READS.split())
# The whole family only reads, whatever its second word.
READ_FAMILIES = frozenset({"XINFO", "OBJECT", "COMMAND"})
READ_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "ACL": frozenset({"WHOAMI", "DRYRUN", "CAT"}),
    "CLIENT": frozenset({"LIST", "INFO", "GETNAME", "ID"}),
    "CLUSTER": frozenset({"SLOTS", "SHARDS", "INFO", "NODES", "KEYSLOT", "MYID", "COUNTKEYSINSLOT"}),
    "CONFIG": frozenset({"GET"}),
    "LATENCY": frozenset({"LATEST", "HISTORY", "HISTOGRAM"}),
    "MEMORY": frozenset({"USAGE", "STATS", "DOCTOR"}),
    "SCRIPT": frozenset({"EXISTS"}),
    "SLOWLOG": frozenset({"GET", "LEN"}),
}


def is_read_only(call: Call) -> bool:
    """Whether the call cannot change data, by its command, whatever the caller claims."""
    command, second = _upper(call.args[0]), _upper(call.args[1]) if len(call.args) > 1 else ""
    if command == "EVALSHA":
        return call.script is not None and scripts.is_read_only_script(call.script)
    if (command, second) == ("SCRIPT", "LOAD"):
        return _loads_read_only_script(call)
    return command in READ_COMMANDS or command in READ_FAMILIES or second in READ_SUBCOMMANDS.get(command, ())


def read_only_call(call: Call) -> Call:
    """The call as a read-only link sends it: a script is run by the command that cannot write. Else `Refused`."""
    if not is_read_only(call):
        raise ChangeRefused(
            f"{_upper(call.args[0])} may change data, and this connection is read-only",
            hint="nothing was sent; repeat it without --read-only, or in a context that is not read_only",
        )
    if _upper(call.args[0]) == "EVALSHA":
        return replace(call, args=("EVALSHA_RO", *call.args[1:]))
    return call


def _loads_read_only_script(call: Call) -> bool:
    if call.script is None or len(call.args) != 3 or not scripts.is_read_only_script(call.script):
        return False
    text = call.args[2]
    return (text.decode() if isinstance(text, bytes) else text) == scripts.script_text(call.script)


def _upper(word: Arg) -> str:
    """A command word as the server would read it: case does not matter, and neither does its Python type."""
    return (word.decode("latin-1") if isinstance(word, bytes) else str(word)).upper()
