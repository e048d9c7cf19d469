"""What a read-only link lets through: a list of commands that cannot change data, and nothing by default.

It knows commands, not queues; who may do what on the server is the business of its ACL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chasqui.errors import Refused
from chasqui.server import scripts

if TYPE_CHECKING:
    from chasqui.server.call import Call, Word

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
READS = frozenset(_READS.split())
# The whole family only reads, whatever its second word.
READING_FAMILIES = frozenset({"XINFO", "OBJECT", "COMMAND"})
SUBCOMMANDS: dict[str, frozenset[str]] = {
    "ACL": frozenset({"WHOAMI", "DRYRUN", "CAT"}),
    "CLIENT": frozenset({"LIST", "INFO", "GETNAME", "ID"}),
    "CLUSTER": frozenset({"SLOTS", "SHARDS", "INFO", "NODES", "KEYSLOT", "MYID", "COUNTKEYSINSLOT"}),
    "CONFIG": frozenset({"GET"}),
    "LATENCY": frozenset({"LATEST", "HISTORY", "HISTOGRAM"}),
    "MEMORY": frozenset({"USAGE", "STATS", "DOCTOR"}),
    "SCRIPT": frozenset({"EXISTS"}),
    "SLOWLOG": frozenset({"GET", "LEN"}),
}


def reads_only(call: Call) -> bool:
    """Whether the call cannot change data, by what it says rather than by what it promises."""
    command, second = _name(call.words[0]), _name(call.words[1]) if len(call.words) > 1 else ""
    if command == "EVALSHA":
        return call.script is not None and scripts.read_only(call.script)
    if (command, second) == ("SCRIPT", "LOAD"):
        return _loads_a_reader(call)
    return command in READS or command in READING_FAMILIES or second in SUBCOMMANDS.get(command, ())


def restrained(call: Call) -> Call:
    """The call as a read-only link sends it: a script is run by the command that cannot write. Else `Refused`."""
    if not reads_only(call):
        raise Refused(
            f"{_name(call.words[0])} may change data, and this connection is read-only",
            hint="nothing was sent; repeat it without --read-only, or in a context that is not read_only",
        )
    if _name(call.words[0]) == "EVALSHA":
        return replace(call, words=("EVALSHA_RO", *call.words[1:]))
    return call


def _loads_a_reader(call: Call) -> bool:
    if call.script is None or len(call.words) != 3 or not scripts.read_only(call.script):
        return False
    text = call.words[2]
    return (text.decode() if isinstance(text, bytes) else text) == scripts.text(call.script)


def _name(word: Word) -> str:
    """A command word as the server would read it: case does not matter, and neither does its Python type."""
    return (word.decode("latin-1") if isinstance(word, bytes) else str(word)).upper()
